"""Energy: figures by hand, methods named, and None with a reason instead of 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.derive import derive
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.rapl import RaplMonitor
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import EPYC, T4, counter, gauge, measure, watched


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
    found = measure({("rapl", "package_j_total"): counter(40.0), **watched(0.5)})["energy"]
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
    estimates = {**watched(0.5), ("host", "cpu_ratio"): gauge(0.25)}
    assert measure(estimates)["energy"]["methods_agree"] is None
    watts = 0.5 * 280 / 64
    for times, agree in ((1.1, True), (10.0, False)):
        counted = {**watched(0.5), ("rapl", "package_j_total"): counter(times * watts)}
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
    series = {("rapl", "package_j_total"): counter(40.0), ("rapl", "dram_j_total"): lost, **watched()}
    energy = measure(series)["energy"]
    assert energy["method"] == "tdp_estimate" and energy["left_out"] == {}


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
    found = measure({("rapl", "package_j_total"): counter(0.0), **watched(0.5)})["energy"]
    assert found["method"] == "tdp_estimate"


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
    series = {**watched(0.5), ("rapl", "package_j_total"): counter(30.0)}
    found = derive(Measured(window, Recording(series, {}), summary, EPYC, DeviceSpec("cpu"), neighbours=1))
    assert found["energy"]["method"] == "tdp_estimate"
    alone = derive(Measured(window, Recording(series, {}), summary, EPYC, DeviceSpec("cpu")))
    assert alone["energy"]["method"] == "rapl"
