"""A sender that was kept from its core makes a run disturbed; one that was slow by itself makes it invalid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.sender_waits import what_it_waited
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.stages.judgement import judge
from tests.unit.analysis.builders import SECOND, records

STEP_NS = 40_000_000
T_NS = np.arange(0, 12 * SECOND, STEP_NS)
QUIET: dict[str, Any] = {"findings": [], "watched": True, "mode": None}


def recording(longest_ms: float, each_ms: float, foreign_cores: float = 1.9) -> Recording:
    """In each step one wait of ``longest_ms``, and forty of ``each_ms``; the rest of two cores is others'."""
    steps = np.arange(len(T_NS))
    series = {
        ("wait", "sender_longest_s"): np.full(len(T_NS), longest_ms / 1e3),
        ("wait", "sender_s_total"): steps * 40 * each_ms / 1e3,
        ("wait", "sender_runs_total"): steps * 40.0,
        ("host", "cpu_busy_s_total"): steps * 2 * 0.04,
        ("server", "cpu_s_total"): steps * (2 - foreign_cores) * 0.02,
        ("client", "cpu_s_total"): steps * (2 - foreign_cores) * 0.02,
    }
    return Recording({key: Series(T_NS, values) for key, values in series.items()}, {})


def waited(longest_ms: float, each_ms: float, foreign_cores: float = 1.9) -> dict[str, float]:
    table = records(5.0)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    measured = Measured(window, recording(longest_ms, each_ms, foreign_cores), {}, {})
    found = what_it_waited(measured)
    assert found is not None
    return found


def certificate(*reasons: tuple[str, float, float]) -> dict[str, Any]:
    """One that fails these checks: name, figure, bound."""
    against = [
        {"check": c, "figure": f, "bound": b, "text": f"{c} is {f} (at most {b})"} for c, f, b in reasons
    ]
    return {"valid": not reasons, "reasons": against}


MEDIAN = ("client_share_p50", 1.4, 0.5)
STALLED = ("client_stalled", 0.172, 0.1)


def test_what_the_sender_waited_behind_others_is_told_by_the_kernels_counts() -> None:
    """The longest of each step, the mean of each time it wanted a core, the share of the time; others' part of it."""
    found = waited(8.0, 1.0)
    assert found["typical_ms"] == pytest.approx(0.95, rel=0.02)
    assert [found["longest_ms"], found["p99_ms"]] == pytest.approx([7.6, 7.6], rel=0.02)
    assert found["stalled_ratio"] == pytest.approx(0.19, rel=0.02)
    assert waited(4.0, 1.0)["stalled_ratio"] == 0.0 and waited(4.0, 1.0)["waited_ratio"] > 0.09
    assert waited(8.0, 1.0, foreign_cores=0.0)["typical_ms"] == pytest.approx(0.0, abs=1e-9)


def test_a_median_that_the_machine_made_is_disturbed_and_not_invalid() -> None:
    """15.26: others kept the sender from its core for a millisecond each time, and for 8 ms 25 times a second."""
    verdict = judge(certificate(MEDIAN, STALLED), None, QUIET | {"sender": waited(8.0, 1.0)})
    assert verdict.kind == "disturbed" and verdict.disturbed
    assert str(verdict).startswith(
        "disturbed: the sender waited for a core behind other processes: client_share_p50"
    )
    assert [reason.figure for reason in verdict.reasons] == [1.4, 0.172]


def test_a_host_s_own_lateness_is_the_machines_as_that_of_the_load_is() -> None:
    """Of two hosts that share a load the worse is at least as late as both: 16 ms, of which 7.6 ms were waits, leave
    8.4 ms, where 10 may be; of 18 ms they leave 10.4."""

    def verdict(late_ms: float) -> str:
        late = [(name, late_ms, 10.0) for name in ("lateness_p99", "host_lateness_p99")]
        return judge(certificate(*late), None, QUIET | {"sender": waited(8.0, 1.0)}).kind

    assert [verdict(16.0), verdict(18.0)] == ["disturbed", "invalid"]
    median = certificate(("lateness_p50", 1.5, 1.0), ("host_lateness_p50", 1.6, 1.0))
    assert judge(median, None, QUIET | {"sender": waited(8.0, 1.0)}).kind == "disturbed"


@pytest.mark.parametrize(
    ("reasons", "sender"),
    [
        ([MEDIAN], (8.0, 0.1)),  # short waits: the median is the client's own
        ([STALLED], (3.0, 1.0)),  # nothing of the length of a stall was a wait
        ([MEDIAN, ("rate", 0.05, 0.01)], (8.0, 1.0)),  # another load was sent
        ([MEDIAN, ("client_cpu", 0.99, 0.85)], (8.0, 1.0)),  # it was busy itself
        ([("errors", 0.2, 0.01)], (8.0, 1.0)),
    ],
)
def test_what_would_stand_without_the_waits_stays_invalid(
    reasons: list[tuple[str, float, float]], sender: tuple[float, float]
) -> None:
    """One reason of the client's own is enough, and then all of them stand as they are."""
    verdict = judge(certificate(*reasons), None, QUIET | {"sender": waited(*sender)})
    assert verdict.kind == "invalid" and len(verdict.reasons) == len(reasons)


def test_unrecorded_waits_excuse_nothing() -> None:
    """Nor do they where the user has disturbances noted only."""
    assert judge(certificate(MEDIAN), None, QUIET | {"sender": None}).kind == "invalid"
    assert judge(certificate(MEDIAN), None, QUIET).kind == "invalid"
    noted = QUIET | {"sender": waited(8.0, 1.0), "mode": "note"}
    assert judge(certificate(MEDIAN), None, noted).kind == "invalid"
    table = records(5.0)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    assert what_it_waited(Measured(window, Recording({}, {}), {}, {})) is None
