"""Energy, CO2 and cost: figures by hand, methods named, and None with a reason instead of 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks import catalogue
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.carbon import REGION
from inferbench_tasks.metrics.derive import BLOCKS, derive
from inferbench_tasks.metrics.interference import reasons
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.environment import granted_cores
from inferbench_tasks.monitors.rapl import RaplMonitor
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records

EPYC = {"cpu": "AMD EPYC 7763 64-Core Processor", "cores_logical": 2, "cores_physical": 2, "gpus": []}
T4 = {"cpu": "x", "cores_logical": 4, "gpus": [{"name": "Tesla T4"}]}


def counter(per_s: float) -> Series:
    """A counter that grows evenly for 12 s."""
    return Series(np.arange(13) * SECOND, np.arange(13) * per_s)


def gauge(value: float) -> Series:
    """A gauge that stands still."""
    return Series(np.arange(13) * SECOND, np.full(13, value))


#: What any recording has.
WATCHED = {
    ("host", "cpu_busy_s_total"): counter(0.1), ("server", "cpu_s_total"): counter(0.05),
    ("client", "cpu_s_total"): counter(0.05),
}  # fmt: skip


def measure(
    series: dict[tuple[str, str], Series],
    hardware: dict[str, Any] = EPYC,
    device: str = "cpu",
    batch_size: int = 1,
    latency_ms: Any = 5.0,
    **about: Any,
) -> dict[str, Any]:
    """All metrics of 200 requests/s with those monitors."""
    table = records(latency_ms, noise=0, batch_size=batch_size)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    summary = summarise(table, measure_start_ns=2 * SECOND, measure_end_ns=10 * SECOND)
    return derive(Measured(window, Recording(series, about), summary, hardware, DeviceSpec(device)))


def test_the_gpus_energy_counter_is_used_and_checked_against_its_power() -> None:
    """60 W at 200 requests/s are 0.3 J per request by both methods."""
    found = measure({("gpu", "energy_j_total"): counter(60.0), ("gpu", "power_w"): gauge(60.0)}, T4, "gpu")[
        "energy"
    ]
    assert found["method"] == "nvml_counter"
    assert found["joule_per_request"] == pytest.approx(0.3, rel=0.01)
    assert found["others"]["nvml_integrated"] == pytest.approx(0.3, rel=0.01)
    assert found["disagreement_ratio"] == pytest.approx(0.0, abs=1e-9)
    assert found["uncertainty_ratio"] == 0.05


def test_a_processors_counter_goes_before_an_estimate() -> None:
    """RAPL is preferred; the estimate from TDP stands beside it."""
    found = measure({("rapl", "package_j_total"): counter(40.0), ("server", "cpu_s_total"): counter(0.5)})[
        "energy"
    ]
    assert found["method"] == "rapl"
    assert found["joule_per_request"] == pytest.approx(0.2, rel=0.01)
    # 0.5 cores of a 64-core processor of 280 W, 200 requests/s.
    assert found["others"]["tdp_estimate"] == pytest.approx(0.5 * 280 / 64 / 200, rel=0.01)


@pytest.mark.parametrize(("physical", "logical"), [(64, 64), (64, 128)])
def test_item_14_an_estimate_of_all_hardware_threads_is_the_tdp(physical: int, logical: int) -> None:
    """15.14: a server that keeps all threads of a 280 W processor busy draws 280 W, with SMT too, never 560."""
    hardware = {**EPYC, "cores_physical": physical, "cores_logical": logical}
    energy = measure({("server", "cpu_s_total"): counter(float(logical))}, hardware)["energy"]
    assert energy["method"] == "tdp_estimate"
    assert energy["power_w"] == pytest.approx(280, rel=0.01)


def test_item_14_without_the_number_of_threads_of_a_core_there_is_no_estimate() -> None:
    """15.14: it could be twice too much; it is null, with the reason."""
    hardware = {**EPYC, "cores_physical": None}
    energy = measure({("server", "cpu_s_total"): counter(0.5)}, hardware)["energy"]
    assert energy["joule_per_request"] is None
    assert "how many hardware threads share a core" in energy["reason"]


def test_item_14_two_estimates_from_one_tdp_are_no_agreement() -> None:
    """15.14: only beside a counter are methods said to agree, or not."""
    estimates = {("server", "cpu_s_total"): counter(0.5), ("host", "cpu_ratio"): gauge(0.25)}
    assert measure(estimates)["energy"]["methods_agree"] is None
    watts = 0.5 * 280 / 64
    for times, agree in ((1.1, True), (10.0, False)):
        counted = {
            ("server", "cpu_s_total"): counter(0.5),
            ("rapl", "package_j_total"): counter(times * watts),
        }
        assert measure(counted)["energy"]["methods_agree"] is agree


@pytest.mark.parametrize("seen", [np.arange(2.0, 4.0, 0.1), np.r_[2.0:4.0:0.1, 9.0:12.0:0.1]])
def test_power_that_was_sampled_in_a_part_of_the_window_is_not_its_energy(seen: np.ndarray) -> None:
    """A sampler that died after 2 of 8 s, or slept for 5 of them: 300 W then are not 300 W throughout."""
    t_ns = (seen * SECOND).astype(np.int64)
    energy = measure({("gpu", "power_w"): Series(t_ns, np.full(len(t_ns), 300.0))}, T4, "gpu")["energy"]
    assert energy["joule_per_request"] is None
    assert "nvml_integrated: the samples do not cover the window" in energy["reason"]
    busy = measure({("host", "cpu_ratio"): Series(t_ns, np.full(len(t_ns), 0.9))})["energy"]
    assert "codecarbon_estimate: the samples do not cover the window" in busy["reason"]


def test_packages_without_their_memory_are_not_the_whole() -> None:
    """Where the memory's counter was lost half-way, the packages alone would look like a machine that saves energy."""
    lost = Series(np.arange(4) * SECOND, np.arange(4) * 20.0)
    energy = measure({("rapl", "package_j_total"): counter(40.0), ("rapl", "dram_j_total"): lost})["energy"]
    assert energy["method"] != "rapl"


def test_no_source_of_energy_is_null_with_the_reasons() -> None:
    """Never 0: None, and why for every method; CO2 then has none either."""
    found = measure(
        {("server", "cpu_s_total"): counter(0.5)},
        {"cpu": "Unheard-of 9000", "cores_logical": 2, "gpus": []},
        unavailable={"rapl": "no zones"},
    )
    assert found["energy"]["joule_per_request"] is None
    assert "rapl: no zones" in found["energy"]["reason"]
    assert "no TDP for 'Unheard-of 9000'" in found["energy"]["reason"]
    assert found["co2_g_per_1k"] is None and "no energy is known" in found["carbon"]["reason"]


def test_a_counter_that_stands_still_measured_nothing() -> None:
    """Some hypervisors show RAPL zones that never move: that is no energy of 0."""
    found = measure({("rapl", "package_j_total"): counter(0.0), ("server", "cpu_s_total"): counter(0.5)})[
        "energy"
    ]
    assert found["method"] == "tdp_estimate"


def test_co2_is_energy_times_the_regions_intensity(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.3 J x 1,000 at 56 g/kWh are 4.67 mg; the region, its source and date are told."""
    monkeypatch.setenv(REGION, "france")
    found = measure({("gpu", "energy_j_total"): counter(60.0)}, T4, "gpu")
    assert found["co2_g_per_1k"] == pytest.approx(300 / 3.6e6 * 56, rel=0.01)
    assert found["carbon"]["date"] == "2023" and "Ember" in found["carbon"]["source"]


def test_an_unknown_region_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region that the table does not have is an error, not the world's mean."""
    monkeypatch.setenv(REGION, "atlantis")
    with pytest.raises(InputError, match="'atlantis' is unknown; known: world, "):
        measure({("gpu", "energy_j_total"): counter(60.0)}, T4, "gpu")


def test_cost_is_the_hourly_rate_over_an_hours_requests() -> None:
    """0.526 USD/h at 200 requests/s are 0.00073 USD per 1,000; all providers stand there, the cheapest first."""
    cost = measure({}, T4, "gpu")["cost"]
    assert cost["usd_per_1k"] == pytest.approx(0.526 / 3600 / 200 * 1000)
    assert [entry["provider"] for entry in cost["instances"]] == ["AWS", "Google Cloud"]


def test_a_sample_has_its_share_of_a_requests_energy_co2_and_cost() -> None:
    """With four samples in a request each has a quarter, stored beside the request's; all or none is known."""
    found = measure({("gpu", "energy_j_total"): counter(60.0)}, T4, "gpu", batch_size=4)
    assert found["energy"]["joule_per_sample"] == pytest.approx(found["energy"]["joule_per_request"] / 4)
    assert found["co2_g_per_1k_samples"] == pytest.approx(found["co2_g_per_1k"] / 4)
    assert found["cost_usd_per_1k_samples"] == pytest.approx(found["cost_usd_per_1k"] / 4)
    unknown = measure({}, {"cpu": "Unheard-of 9000", "cores_logical": 2, "gpus": []})
    assert unknown["co2_g_per_1k_samples"] is None and unknown["cost_usd_per_1k_samples"] is None


def test_a_cpu_instance_is_scaled_to_this_machines_cores() -> None:
    """2 of 2 vCPUs cost the whole instance, 1 of 2 half of it; an approximate row says so."""
    one, two = (measure({}, {**EPYC, "cores_logical": n})["cost"] for n in (1, 2))
    assert two["usd_per_1k"] == pytest.approx(2 * one["usd_per_1k"])
    assert two["instances"][0]["approximate"] is True


def test_a_pinned_job_costs_the_cores_that_it_had() -> None:
    """3 of 16 cores by affinity cost 3/16 of the machine; a quota of 1.5 cores halves that, and counts alone too."""
    machine = {**EPYC, "cores_logical": 16}
    whole = measure({}, machine)["cost"]["usd_per_1k"]
    for given, cores in (
        ({"cores_allowed": [4, 5, 6]}, 3.0),
        ({"cores_allowed": [4, 5, 6], "cpu_limit_cores": 1.5}, 1.5),
        ({"cpu_limit_cores": 2.0}, 2.0),
        ({"cores_allowed": [4], "cpu_limit_cores": 8.0}, 1.0),
    ):
        pinned: dict[str, Any] = {**machine, **given}
        assert granted_cores(pinned) == cores
        assert measure({}, pinned)["cost"]["usd_per_1k"] == pytest.approx(whole * cores / 16)


def test_a_missing_price_is_named() -> None:
    """A device that no instance has: None, and which device."""
    cost = measure({}, {"cpu": "Unheard-of 9000", "cores_logical": 2, "gpus": []})["cost"]
    assert cost["usd_per_1k"] is None and "'Unheard-of 9000'" in cost["reason"]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ({("host", "cpu_steal_s_total"): counter(0.2)}, "the hypervisor took 10.0% of the machine's CPU time"),
        (
            {
                ("host", "cpu_busy_s_total"): counter(2.0), ("server", "cpu_s_total"): counter(0.05),
                ("client", "cpu_s_total"): counter(0.05), ("server", "waited_s_total"): counter(0.2),
            },
            "the server waited for a core in 80% of the time",
        ),
    ],
)  # fmt: skip
def test_interference_quarantines_with_its_figure(
    series: dict[tuple[str, str], Series], expected: str
) -> None:
    """Steal and foreign processes above their threshold are held against the run."""
    found = reasons(measure(WATCHED | series)["interference"])
    assert len(found) == 1 and found[0].text.startswith("interference: ") and expected in found[0].text


def test_gpu_interference() -> None:
    """A second process, a hardware slow-down and an ECC error each quarantine; a moving clock is noted."""
    clocks = Series(np.arange(13) * SECOND, np.linspace(1000, 1500, 13))
    ledger = measure(
        {
            ("gpu", "processes"): gauge(2), ("server", "processes"): gauge(1), ("gpu", "held_back"): gauge(0x8),
            ("gpu", "ecc_uncorrected_total"): counter(1.0), ("gpu", "sm_clock_mhz"): clocks,
        },
        T4, "gpu",
    )["interference"]  # fmt: skip
    kinds = {finding["kind"]: finding["quarantine"] for finding in ledger["findings"]}
    assert kinds == {"foreign_gpu_process": True, "gpu_throttling": True, "gpu_ecc": True, "gpu_clock": False}


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"foreign_processes": 0, "processes": 3}, None),
        ({"foreign_processes": 1, "processes": 1}, "1 process(es) used the GPU that are neither"),
        ({"processes": 2, "beside_processes": 1}, None),
        (
            {"processes": 3, "beside_processes": 1},
            "3 processes used the GPU, the server has 1, its neighbours 1",
        ),
    ],
)
def test_a_neighbour_on_the_gpu_is_no_interference(told: dict[str, float], text: str | None) -> None:
    """By the processes' ids where they are seen, however many the server has; else by their number."""
    series = WATCHED | {("gpu", name): gauge(value) for name, value in told.items()}
    found = reasons(measure({**series, ("server", "processes"): gauge(1)}, T4, "gpu")["interference"])
    assert [text in reason.text for reason in found if text] == ([True] if text else [])
    assert bool(found) == bool(text)


def test_a_gpus_price_is_of_the_one_that_was_used() -> None:
    """Not of the machine's first; none where it is not known which one it was."""
    both = [{"name": "Tesla T4"}, {"name": "Tesla V100-SXM2-16GB"}]
    hardware: dict[str, Any] = {**T4, "gpus": both}
    used = measure({}, {**hardware, "gpu": both[1]}, "gpu")["cost"]
    assert {entry["device"] for entry in used["instances"]} == {"Tesla V100"}
    assert "tells no name" in measure({}, {**hardware, "gpu": None}, "gpu")["cost"]["reason"]


def test_a_quiet_machine_has_an_empty_ledger() -> None:
    """Little foreign work is no finding, and a server's waiting for itself neither; what was not watched is listed."""
    quiet = {
        ("host", "cpu_busy_s_total"): counter(0.4), ("server", "cpu_s_total"): counter(0.1),
        ("client", "cpu_s_total"): counter(0.2), ("host", "cpu_steal_s_total"): counter(0.0),
        ("server", "waited_s_total"): counter(0.9),
    }  # fmt: skip
    over_time = "waits for a core over time"
    assert measure(quiet)["interference"] == {
        "findings": [], "not_watched": [over_time], "watched": True, "mode": None, "waits_ms": None, "sender": None,
    }  # fmt: skip
    unwatched = measure({})["interference"]
    assert unwatched["not_watched"] == ["steal", "foreign CPU", over_time] and not unwatched["watched"]


def test_a_pinned_job_is_judged_by_its_own_cores() -> None:
    """Work on a core that is another device's is no interference; the same work on its own core is."""
    ours = {
        ("server", "cpu_s_total"): counter(0.05), ("client", "cpu_s_total"): counter(0.05),
        ("server", "waited_s_total"): counter(0.2), ("host", "cpu_busy_s_total"): counter(1.1),
        ("host", "cpu_steal_s_total"): counter(0.0),
        ("host", "core0_steal_s_total"): counter(0.0), ("host", "core1_steal_s_total"): counter(0.0),
    }  # fmt: skip
    pinned = {**EPYC, "cores_allowed": [1]}
    elsewhere = {("host", "core0_busy_s_total"): counter(1.0), ("host", "core1_busy_s_total"): counter(0.1)}
    here = {("host", "core0_busy_s_total"): counter(0.1), ("host", "core1_busy_s_total"): counter(1.0)}
    assert measure(ours | elsewhere, pinned)["interference"]["findings"] == []
    [found] = reasons(measure(ours | here, pinned)["interference"])
    assert "while other processes used 0.90 of 1 cores" in found.text


def test_rapl_counters_are_summed_and_their_wraps_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two packages, one of which wraps around: the joules are those drawn; cores inside a package don't count twice."""
    for index, name in enumerate(("package-0", "package-1", "core")):
        zone = tmp_path / f"intel-rapl:{index}"
        zone.mkdir()
        (zone / "name").write_text(name)
        (zone / "max_energy_range_uj").write_text("9999999")
        (zone / "energy_uj").write_text("9000000")
    monkeypatch.setattr(RaplMonitor, "root", tmp_path)
    target = Target(pid=1, started_ns=0)
    assert RaplMonitor.unavailable(target) is None
    monitor = RaplMonitor(target)
    assert monitor.sample() == {"package_j_total": 0.0}
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("9500000")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("1000000")
    assert monitor.sample() == {"package_j_total": pytest.approx(0.5 + 2.0)}


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


def test_every_figure_and_block_tells_unit_and_formula() -> None:
    """The table is complete."""
    for figure in FIGURES.values():
        assert figure.unit and figure.title and figure.formula, figure.name
    for block in BLOCKS:
        assert block.unit and block.formula and block.path


def test_beside_others_a_model_has_no_cost_and_no_energy_of_the_whole_device() -> None:
    """What of a board's counter, or of an instance's price, is this model's is not known; alone it is all of it."""
    table = records(5.0, noise=0)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    summary = summarise(table, measure_start_ns=2 * SECOND, measure_end_ns=10 * SECOND)
    board = Recording({("gpu", "energy_j_total"): counter(60.0), ("gpu", "power_w"): gauge(60.0)}, {})
    found = derive(Measured(window, board, summary, T4, DeviceSpec("gpu"), neighbours=2))
    assert found["energy"]["joule_per_request"] is None and found["cost"]["usd_per_1k"] is None
    assert "2 other model(s) used the device" in found["energy"]["reason"]
    assert "the price is of the whole instance" in found["cost"]["reason"]
    alone = derive(Measured(window, board, summary, T4, DeviceSpec("gpu")))
    assert alone["energy"]["joule_per_request"] and alone["cost"]["usd_per_1k"]


def test_beside_others_the_estimate_by_the_servers_own_cpu_stands() -> None:
    """It counts what the server used; packages and machine are everybody's."""
    table = records(5.0, noise=0)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    summary = summarise(table, measure_start_ns=2 * SECOND, measure_end_ns=10 * SECOND)
    series = {("server", "cpu_s_total"): counter(0.5), ("rapl", "package_j_total"): counter(30.0)}
    found = derive(Measured(window, Recording(series, {}), summary, EPYC, DeviceSpec("cpu"), neighbours=1))
    assert found["energy"]["method"] == "tdp_estimate"
    alone = derive(Measured(window, Recording(series, {}), summary, EPYC, DeviceSpec("cpu")))
    assert alone["energy"]["method"] == "rapl"
