"""Costs of predictions: by the tables alone, calculated by hand, with what they assume."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.brick_jobs.costs import FIGURES, costs_of
from inferbench_tasks.catalogue import CONFIG_DIR
from inferbench_tasks.metrics.carbon import REGION

ROW = {
    "device": "Acme 9000", "runtime": "onnxruntime 1.23", "threads": 2, "predicted_ms": 36.0, "batch_size": 4,
}  # fmt: skip
SOURCE = "source: s, date: '2026'"


@pytest.fixture(autouse=True)
def _tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    monkeypatch.setenv(REGION, "here")
    price = "region: r, kind: cpu, device: d, match: Acme, " + SOURCE
    (tmp_path / "prices.yaml").write_text(
        "rows:\n"
        f"  - {{provider: A, instance: small, vcpus: 4, usd_per_hour: 0.4, {price}}}\n"
        f"  - {{provider: B, instance: large, vcpus: 8, usd_per_hour: 0.4, unverified: true, {price}}}\n"
    )
    (tmp_path / "hardware.yaml").write_text(
        f"rows:\n  - {{name: n, match: Acme, kind: cpu, cores: 10, tdp_w: 100, {SOURCE}}}\n"
    )
    (tmp_path / "carbon.yaml").write_text(f"rows:\n  - {{region: here, g_per_kwh: 360, {SOURCE}}}\n")


def test_a_request_costs_its_cores_for_its_time() -> None:
    """Two of eight cores at 0.4 USD/h are 0.1 USD/h: 36 ms of it, a thousand times, are 36 s, 0.001 USD. Two cores of
    10 W for 36 s are 720 J, 0.0002 kWh, at 360 g 0.072 g. A request has 4 samples: 1,000 of these are a quarter."""
    found = costs_of(ROW)
    assert found["usd_per_1k"] == pytest.approx(0.001)
    assert found["g_per_1k"] == pytest.approx(0.072)
    assert found["usd_per_1k_samples"] == pytest.approx(0.001 / 4)
    assert found["g_per_1k_samples"] == pytest.approx(0.072 / 4)
    money, emissions = found["costs_assume"]
    assert (
        "2 of the 8 vCPUs of B large" in money and "not looked up" in money and "busy all the time" in money
    )
    assert (
        "2 cores at 10 W" in emissions and "60% more or less" in emissions and "here, 360 g/kWh" in emissions
    )


def test_an_instance_that_has_fewer_cores_than_threads_runs_nothing() -> None:
    """Six threads fit the larger one only, and nine fit none: nobody rents 9 of 8 vCPUs."""
    assert "6 of the 8 vCPUs" in costs_of({**ROW, "threads": 6})["costs_assume"][0]
    found = costs_of({**ROW, "threads": 9})
    assert found["usd_per_1k"] is None and "9 vCPUs or more" in found["costs_assume"][0]


def test_what_the_tables_do_not_know_is_not_guessed(tmp_path: Path) -> None:
    """Another processor has neither figure, and says so; without the tables nothing has."""
    found = costs_of({**ROW, "device": "Other"})
    assert [found[name] for name in FIGURES] == [None] * 4
    assert all("not known" in sentence for sentence in found["costs_assume"])
    (tmp_path / "carbon.yaml").unlink()
    assert costs_of(ROW)["g_per_1k"] is None


@pytest.mark.parametrize(
    "runtime", ["onnxruntime-cuda 1.23 (CUDA 12.8)", "onnxruntime-tensorrt 1.23 (CUDA 12.8)"]
)
def test_a_gpu_is_not_priced_by_its_hosts_threads(runtime: str) -> None:
    """Neither figure, whatever row of a table its name fits, and one sentence that says why."""
    found = costs_of({**ROW, "runtime": runtime})
    assert [found[name] for name in FIGURES] == [None] * 4
    assert found["costs_assume"] == [
        "What 1,000 requests on Acme 9000 cost: worked out for processors alone, and it is a GPU."
    ]
