"""How sure the CPU time of a sample is, and what it may be held against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.report.cpu_checks import differ, unknown
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.cpu_time import CpuTime, ratio_interval
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import measure

T_NS = np.arange(0, 12 * SECOND, 100_000_000)


def recorded(cores: float = 0.5, **clocks: Any) -> dict[tuple[str, str], Series]:
    """A server that uses so many cores, unevenly; clocks of cores by their number (MHz over the samples)."""
    rng = np.random.default_rng(3)
    used = np.cumsum(rng.normal(cores, 0.05, len(T_NS)).clip(0) * 0.1)
    series = {("server", "cpu_s_total"): Series(T_NS, used)}
    for name, mhz in clocks.items():
        core = name.removeprefix("core")
        values = np.broadcast_to(np.asarray(mhz, dtype=float), T_NS.shape)
        series["host", f"core{core}_frequency_mhz"] = Series(T_NS, values)
        series["host", f"core{core}_busy_s_total"] = Series(
            T_NS, np.linspace(0, 12 if core == "0" else 0, len(T_NS))
        )
    if clocks:
        series["host", "frequency_mhz"] = series["host", "core0_frequency_mhz"]
    return series


def cpu_time(series: dict[tuple[str, str], Series], **changes: Any) -> dict[str, Any]:
    summary = measure(series, **changes)
    block: dict[str, Any] = summary["cpu_time"]
    return block


def test_the_interval_holds_the_ratio_and_is_the_figures_own() -> None:
    """15.28: over time blocks of the run; it stands where comparisons look for the error of a figure."""
    summary = measure(recorded())
    block = summary["cpu_time"]
    low, high = block["ci95"]["ms_per_sample"]
    assert block["blocks"] == 16 and block["reason"] is None
    assert low < 2.5 < high and high - low < 0.4
    assert FIGURES["cpu_ms_per_sample"].interval_in(summary) == (low, high)


def test_blocks_that_nobody_sampled_are_no_blocks_without_work() -> None:
    """15.28: samples begin 0.9 s after the window and end 0.9 s before it, of 8 s; 0.5 cores at 200/s are 2.5 ms."""
    t_ns = np.arange(int(2.9 * SECOND), int(9.2 * SECOND), 100_000_000)
    series = {("server", "cpu_s_total"): Series(t_ns, (t_ns - t_ns[0]) / 1e9 * 0.5)}
    block = cpu_time(series)
    low, high = block["ci95"]["ms_per_sample"]
    assert block["blocks"] == 12 and 2.45 < low < 2.5 < high < 2.55


@pytest.mark.parametrize("lasting", [1, 5])
def test_the_interval_holds_in_95_of_100(lasting: int) -> None:
    """Simulated, of blocks by themselves and of a load on the caches that comes and goes over several blocks."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(400):
        counts = rng.poisson(100, 60).astype(float)
        slow = np.repeat(rng.normal(1, 0.1, 60 // lasting + 1), lasting)[:60]
        low, high = ratio_interval(2.0 * counts * slow + rng.normal(0, 5, 60), counts)
        held += low <= 2.0 <= high
    assert (0.88 if lasting > 1 else 0.93) <= held / 400 <= 0.99


def test_what_was_not_recorded_has_no_interval_and_says_why() -> None:
    """Without the server's CPU, and of a window too short for eight blocks."""
    assert cpu_time({})["ci95"] is None and "not recorded" in cpu_time({})["reason"]
    table = records(5.0)
    window = Window.of(table, 2 * SECOND, 5 * SECOND)
    short = CpuTime().compute(Measured(window, Recording(recorded(), {}), {}, {}))
    assert short["ci95"] is None and "6 blocks of 0.5 s, too few" in short["reason"]


def test_how_busy_the_other_threads_of_the_cores_were_is_known_where_the_kernel_tells_them() -> None:
    """Both threads of a core used all the time, one alone, none that share, and a hypervisor that hides them."""
    clocks = {"core0": 2000.0, "core1": 2000.0}
    pair = {"siblings": [[0, 1]], "cores_logical": 2, "cores_physical": 1}
    alone = cpu_time(recorded(**clocks), hardware=pair)["siblings"]
    assert alone["known"] and alone["busy_ratio"] == 0.0
    series = recorded(**clocks)
    series["host", "core1_busy_s_total"] = series["host", "core0_busy_s_total"]
    both = cpu_time(series, hardware=pair)["siblings"]
    assert both["busy_ratio"] == pytest.approx(1.0)
    own = {"siblings": [[0], [1]], "cores_logical": 2, "cores_physical": 2}
    assert cpu_time(series, hardware=own)["siblings"]["busy_ratio"] == 0.0
    hidden = cpu_time(series, hardware={**own, "hypervisor": True})["siblings"]
    assert not hidden["known"] and "hypervisor" in hidden["text"]


def test_a_clock_that_never_moves_is_not_known() -> None:
    """A virtual machine tells what its processor is called; a clock that moves, or is governed, is one."""
    same = cpu_time(recorded(core0=2500.0, core1=2500.0))["clock"]
    assert not same["known"] and same["mhz"] is None and "2,500 MHz throughout" in same["text"]
    moving = np.where(np.arange(len(T_NS)) % 2, 3000.0, 2900.0)
    told = cpu_time(recorded(core0=moving, core1=800.0))["clock"]
    assert told["known"] and told["mhz"] == pytest.approx(2950, abs=10)  # the idle core counts for nothing


def test_runs_at_other_clocks_are_not_held_against_each_other() -> None:
    """By more than 2%; and a clock that one of them does not know is said, not judged."""

    def at(mhz: float | None, busy: float | None = 0.0) -> dict[str, Any]:
        clock = {"mhz": mhz, "known": mhz is not None, "text": "no clock"}
        return {
            "cpu_time": {
                "clock": clock,
                "siblings": {"busy_ratio": busy, "known": busy is not None, "text": "?"},
            }
        }

    assert differ(at(2000), at(2030)) is None
    assert "2,000 and 2,500 MHz" in str(differ(at(2000), at(2500)))
    assert "5% and 60%" in str(differ(at(2000, 0.05), at(2000, 0.6)))
    assert differ(at(2000), at(None)) is None and unknown(at(2000), at(None)) == "no clock"
    assert unknown(at(2000), at(2010)) is None and unknown({}, {}) is None
