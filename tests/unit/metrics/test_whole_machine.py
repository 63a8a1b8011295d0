"""What counts a whole machine is a run's only where others used next to nothing: sums worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.device import CPU
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.derive import derive
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.rapl import RaplMonitor
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import EPYC, counter, gauge, measure, watched

#: A worker's device: one core of the machine's two, as `inferbench up --workers 2` divides it.
HALF: dict[str, Any] = {**EPYC, "cores_allowed": [0]}
#: 0.5 cores of the server at 280 W for 64 cores, 200 requests/s.
BY_TDP = 0.5 * 280 / 64 / 200


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Series]:
    """What the monitor reads of a package that draws 40 W for 12 s; its counter wraps around each 10 s."""
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    for name, text in (("name", "package-0"), ("max_energy_range_uj", "399999999"), ("energy_uj", "0")):
        (zone / name).write_text(text)
    monkeypatch.setattr(RaplMonitor, "root", tmp_path)
    monitor = RaplMonitor(Target(pid=1, started_ns=0))
    drawn_j = []
    for second in range(13):
        (zone / "energy_uj").write_text(str(second * 40_000_000 % 400_000_000))
        drawn_j.append(monitor.sample()["package_j_total"])
    return {("rapl", "package_j_total"): Series(np.arange(13) * SECOND, np.array(drawn_j))}


def test_beside_another_workers_job_the_packages_are_not_the_runs(
    packages: dict[tuple[str, str], Series],
) -> None:
    """40 W at 200 requests/s are 0.2 J, of two jobs together: of 1.05 cores that were used the other's job had 0.5,
    48%. The run's energy is the estimate of its own CPU time, and CO2 follows from that; 0.2 J stand apart.
    """
    found = measure({**packages, **watched(0.5, others=0.5)}, HALF)
    energy = found["energy"]
    assert energy["method"] == "tdp_estimate" and energy["machine"] is None
    assert energy["joule_per_request"] == pytest.approx(BY_TDP, rel=0.01)
    assert "rapl" not in energy["others"] and energy["methods_agree"] is None
    assert energy["left_out"]["rapl"]["joule_per_request"] == pytest.approx(0.2, rel=0.01)
    assert (
        "47.6% of the CPU time that was used was others' (at most 5%)" in energy["left_out"]["rapl"]["reason"]
    )
    assert found["co2_g_per_1k"] == pytest.approx(BY_TDP / 3600 * found["carbon"]["g_per_kwh"], rel=0.01)


def test_alone_a_half_of_the_machine_has_the_idle_power_of_the_whole(
    packages: dict[tuple[str, str], Series],
) -> None:
    """While nobody else runs the packages stand, too much by half at most: the other core's idle power is in them."""
    energy = measure({**packages, **watched(0.5)}, HALF)["energy"]
    assert energy["method"] == "rapl" and energy["left_out"] == {}
    assert energy["joule_per_request"] == pytest.approx(0.2, rel=0.01)
    assert energy["uncertainty_ratio"] == pytest.approx(0.03 + 0.5)
    assert "the run had 1 of the 2 cores whose idle power is in it" in energy["scope"]
    assert energy["machine"] == {"cores": 1.0, "of_cores": 2, "others_ratio": pytest.approx(0, abs=1e-9)}
    # 0.094 J at least; the estimate says 0.0175 at most.
    assert energy["methods_agree"] is False


@pytest.mark.parametrize(("others", "kept"), [(0.02, True), (0.04, False)])
def test_of_all_cores_too_others_may_have_used_little(
    packages: dict[tuple[str, str], Series], others: float, kept: bool
) -> None:
    """0.02 of 0.57 cores are 3.5%, which the figure may be too much by; 0.04 of 0.59 are 6.8%, and too many."""
    energy = measure({**packages, **watched(0.5, others)})["energy"]
    assert energy["method"] == ("rapl" if kept else "tdp_estimate")
    if kept:
        assert energy["uncertainty_ratio"] == pytest.approx(0.03 + 0.02 / 0.57)
        assert energy["scope"].endswith(": 4% of the CPU time was others'")


def test_what_others_used_is_counted_in_ns_where_the_kernel_does(
    packages: dict[tuple[str, str], Series],
) -> None:
    """By ticks of 10 ms 0.1 of 0.65 cores seem to be others'; by the cgroups' clock it was 0.01 of 0.56, 1.8%."""
    exact = {("wait", "foreign_s_total"): counter(0.01)}
    energy = measure({**packages, **watched(0.5, others=0.1), **exact})["energy"]
    assert energy["method"] == "rapl"
    assert energy["machine"]["others_ratio"] == pytest.approx(0.01 / 0.56)


def test_where_nobody_recorded_what_others_used_it_is_not_the_runs(
    packages: dict[tuple[str, str], Series],
) -> None:
    """Neither the packages nor the curve over the machine's load: null, with the reason of each."""
    found = measure({**packages, ("host", "cpu_ratio"): gauge(0.5)}, {**HALF, "cpu": "Unheard-of 9000"})
    reason = found["energy"]["reason"]
    assert found["energy"]["joule_per_request"] is None and found["co2_g_per_1k"] is None
    for method in ("rapl", "codecarbon_estimate"):
        assert f"{method}: it counts the whole machine, and what others used of it was not recorded" in reason
    assert set(found["energy"]["left_out"]) == {"rapl", "codecarbon_estimate"}


def test_in_a_virtual_machine_the_packages_may_be_anybodys(packages: dict[tuple[str, str], Series]) -> None:
    """Others of the host are seen from no guest: the counter stands apart, and the estimate is the run's."""
    energy = measure({**packages, **watched(0.5)}, {**EPYC, "hypervisor": True})["energy"]
    assert energy["method"] == "tdp_estimate"
    assert energy["left_out"]["rapl"]["reason"].startswith("this is a virtual machine")


def test_the_curve_over_the_machines_load_is_of_all_too() -> None:
    """A processor that nobody knows, 8 W for two threads, busy by half: 0.85 W are 4.25 mJ a request, of both jobs."""
    unknown = {"cpu": "Unheard-of 9000", "cores_logical": 2, "cores_allowed": [0], "gpus": []}
    series = {("host", "cpu_ratio"): gauge(0.5)}
    alone = measure({**series, **watched(0.5)}, unknown)["energy"]
    assert alone["method"] == "codecarbon_estimate" and alone["uncertainty_ratio"] == pytest.approx(1.5)
    assert alone["joule_per_request"] == pytest.approx(8 * (0.1 + 0.9 / 8) / 200, rel=0.01)
    beside = measure({**series, **watched(0.5, others=0.5)}, unknown)["energy"]
    assert beside["joule_per_request"] is None
    assert beside["left_out"]["codecarbon_estimate"]["joule_per_request"] == alone["joule_per_request"]


@pytest.mark.parametrize(("balanced", "method"), [(0.3, "rapl"), (0.0, "tdp_estimate")])
def test_what_stands_before_replicas_is_nobody_else(
    packages: dict[tuple[str, str], Series], balanced: float, method: str
) -> None:
    """Two replicas on two cores of four, nginx on a third: the 0.3 cores that nobody else used were its own. The
    devices' cores and its own count, three of four, though the process might use all.
    """
    series = {**packages, **watched(0.5, others=0.3), ("balancer", "cpu_s_total"): counter(balanced)}
    table = records(5.0, noise=0)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    summary = summarise(table, measure_start_ns=2 * SECOND, measure_end_ns=10 * SECOND)
    used = {"server": {}, "balancer": {"cpu_cores": {"mean": balanced}}}
    hardware = {**EPYC, "cores_logical": 4, "cores_physical": 4, "cores_allowed": [0, 1, 2, 3]}
    measured = Measured(
        window, Recording(series, {}), {**summary, "resources": used}, hardware, CPU,
        balancer_cores=(2,), device_cores=(0, 1), balancer_own_cores=1,
    )  # fmt: skip
    energy = derive(measured)["energy"]
    assert energy["method"] == method
    if method == "rapl":
        assert energy["uncertainty_ratio"] == pytest.approx(0.28)


def test_the_kernel_s_own_work_is_others(packages: dict[tuple[str, str], Series]) -> None:
    """Cgroups of version 2 don't count it: of 1 core in use, by ticks, server and client had 0.55, other cgroups 0."""
    series = watched(0.5, others=0.45) | {("wait", "foreign_s_total"): counter(0.0)}
    energy = measure({**packages, **series}, EPYC)["energy"]
    assert "45.0% of the CPU time" in energy["left_out"]["rapl"]["reason"]
