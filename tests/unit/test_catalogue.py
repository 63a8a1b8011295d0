"""The tables of hardware, prices and carbon: sources, and which row is whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import catalogue
from inferbench_tasks.errors import InputError


def test_every_table_has_a_source_and_a_date_in_every_row() -> None:
    """The tables that come with InferBench are valid, and the paper's five platforms are in them."""
    for rows in (catalogue.hardware_rows(), catalogue.price_rows(), catalogue.carbon_rows()):
        assert rows and all(row.source and row.date for row in rows)
    assert {row.paper_id for row in catalogue.hardware_rows()} >= {"C1", "G1", "G2", "G3", "G4"}
    found = catalogue.find_hardware("NVIDIA H200")
    assert found is not None and found.name == "H200 SXM"


@pytest.mark.parametrize(
    ("name", "row", "devices"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80 GB", {"A100 SXM 80 GB"}),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB", {"A100 80 GB PCIe"}),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB", {"A100 SXM 40 GB"}),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB", set()),
        ("NVIDIA A100-SXM-64GB", None, set()),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None, set()),
        ("NVIDIA A100-20C", None, set()),
        ("GRID T4-8Q", None, set()),
        ("NVIDIA H100 PCIe", "H100 PCIe", set()),
        ("NVIDIA H100 NVL", "H100 NVL", {"H100 NVL"}),
        ("NVIDIA H100 96GB HBM3", None, set()),
        ("NVIDIA H100 64GB HBM3", None, set()),
        ("NVIDIA H100 64GB HBM2", None, set()),
        ("NVIDIA H100 80GB HBM2e", None, set()),
        ("NVIDIA H200 NVL", "H200 NVL", set()),
        ("Tesla V100-FHHL-16GB", None, set()),
        ("Tesla V100-DGXS-16GB", None, set()),
        ("Tesla V100-SXM3-32GB", None, set()),
        ("Tesla V100-SXM2-32GB", "Tesla V100", set()),
        ("Tesla V100-PCIE-16GB", "Tesla V100 PCIe 16 GB", set()),
        ("Tesla V100-PCIE-32GB", "Tesla V100 PCIe 32 GB", set()),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", {"H100 SXM"}),
        ("NVIDIA H200", "H200 SXM", set()),
        ("Tesla V100-SXM2-16GB", "Tesla V100 SXM2 16 GB", {"Tesla V100"}),
        ("NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti", set()),
        ("Tesla T4", "Tesla T4", {"Tesla T4"}),
        ("Tesla P4", "Tesla P4", {"Tesla P4"}),
        ("NVIDIA A10G", "A10G", {"A10G"}),
        ("NVIDIA L4", "L4", set()),
        ("NVIDIA RTX A1000", None, set()),
        ("NVIDIA GH200 480GB", None, set()),
        ("NVIDIA L40S", None, set()),
        ("NVIDIA T400 4GB", None, set()),
        ("Quadro P400", None, set()),
        ("NVIDIA A10", None, set()),
        ("NVIDIA A100X", None, set()),
        ("Tesla V100S-PCIE-32GB", None, set()),
        ("Quadro GP4", None, set()),
    ],
)
def test_a_row_is_of_its_own_product(name: str, row: str | None, devices: set[str]) -> None:
    """Every form of a product's name finds its datasheet and prices; a name that only begins or ends alike, another
    board, another memory or a part of a GPU none.
    """
    found = catalogue.find_hardware(name)
    assert (found and found.name) == row
    assert {price.device for price in catalogue.prices_for("gpu", name)} == devices


@pytest.mark.parametrize(
    ("name", "bandwidth_gb_s", "tdp_w"),
    [
        ("NVIDIA H100 80GB HBM3", 3350, 700),
        ("NVIDIA H100 PCIe", 2000, 350),
        ("NVIDIA H100 NVL", 3900, 400),
        ("NVIDIA H200", 4800, 700),
        ("NVIDIA H200 NVL", 4800, 600),
        ("NVIDIA A100-SXM4-80GB", 2039, 400),
        ("NVIDIA A100 80GB PCIe", 1935, 300),
        ("NVIDIA A100-SXM4-40GB", 1555, 400),
        ("NVIDIA A100-PCIE-40GB", 1555, 250),
        ("Tesla V100-SXM2-16GB", 900, 300),
        ("Tesla V100-PCIE-32GB", 900, 250),
    ],
)
def test_each_board_has_the_power_and_bandwidth_of_its_own_datasheet(
    name: str, bandwidth_gb_s: float, tdp_w: float
) -> None:
    """NVIDIA's datasheets of each form: a card for PCIe has not the watts of the module."""
    found = catalogue.find_hardware(name)
    assert found is not None and (found.bandwidth_gb_s, found.tdp_w) == (bandwidth_gb_s, tdp_w)


def test_a_slice_of_a_gpu_has_no_price_of_the_whole() -> None:
    """Three sevenths of an H100 at the price of one would cost more than twice what they do."""
    assert catalogue.prices_for("gpu", "NVIDIA H100 80GB HBM3 MIG 3g.40gb") == []
    assert catalogue.prices_for("gpu", "NVIDIA H100 80GB HBM3") != []


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", "Intel Xeon E5-2698 v4"),
        ("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz", "Intel Xeon Platinum 8175M"),
        ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "Intel Xeon Platinum 8259CL"),
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "Intel Xeon Platinum 8375C"),
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763"),
        ("AMD EPYC 7R32", "AMD EPYC 7R32"),
        ("AMD EPYC 9554P 64-Core Processor", "AMD EPYC 9554"),
        ("AMD EPYC 7R13 Processor", "AMD EPYC (product hidden)"),
        ("Intel(R) Xeon(R) Processor", "Intel Xeon (product hidden)"),
    ],
)
def test_a_processors_row(name: str, row: str) -> None:
    """Names as /proc/cpuinfo has them."""
    found = catalogue.find_hardware(name)
    assert found is not None and found.name == row


def test_a_wrong_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File and row stand in the message."""
    monkeypatch.setenv(catalogue.CONFIG_DIR, str(tmp_path))
    assert catalogue.carbon_rows() == ()
    (tmp_path / "carbon.yaml").write_text("rows:\n  - {region: x, g_per_kwh: -1, source: s, date: '2023'}\n")
    with pytest.raises(InputError, match=r"carbon\.yaml, row 1: "):
        catalogue.carbon_rows()
