"""What else used the machine or the GPU, and by how much: held against a run with its figure."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.metrics.interference import reasons
from inferbench_tasks.monitors.records import Series
from tests.unit.analysis.builders import SECOND
from tests.unit.metrics.spent import EPYC, T4, WATCHED, counter, gauge, measure


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
