"""The steady-state detector on servers whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.load.servers import Stream, one
from benchmarks.load.steady_state import HELD_OUT, TUNED, compare, perf_analyzer, rates
from inferbench_tasks.loadgen.layout import MEASURE
from inferbench_tasks.loadgen.spool import Recorder
from inferbench_tasks.loadgen.steady import (
    SteadySettings,
    SteadyState,
    find_steady_state,
    steady_state_of,
)

S, MS = 1_000_000_000, 1_000_000
START = 50 * S
Times = NDArray[np.float64]


def _answers(
    level: Times, rate_rps: float = 100, seed: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(done_ns, latency_ns): 10 ms x level(t) x noise of 20%, ``level`` given at equal steps over the load."""
    rng = np.random.default_rng(seed)
    moments = np.sort(rng.uniform(0, 1, len(level)))
    latency = 10 * MS * level[(moments * len(level)).astype(int)] * rng.gamma(25, 1 / 25, len(level))
    return START + (moments * len(level) / rate_rps * S).astype(np.int64), latency.astype(np.int64)


def _find(level: Times, **settings: float) -> SteadyState:
    done_ns, latency = _answers(level)
    return find_steady_state(
        done_ns, latency, start_ns=START, end_ns=START + len(level) * S // 100,
        settings=SteadySettings.model_validate(settings),
    )  # fmt: skip


def test_a_server_that_never_changes_is_steady_from_the_start() -> None:
    """Nearly nothing is thrown away."""
    state = _find(np.ones(4000))
    assert state.steady
    assert state.start_ns is not None
    assert state.start_ns <= START + 2 * S


def test_the_warm_up_is_cut_off_where_it_ends() -> None:
    """A decay with a time constant of 2 s: cut while it is above the tolerance, and not long after."""
    t = np.arange(4000) / 100
    state = _find(1 + 4 * np.exp(-t / 2))
    assert state.start_ns is not None
    excess = 4 * np.exp(-(state.start_ns - START) / S / 2)
    assert excess < 0.5
    assert state.start_ns < START + 16 * S


def test_after_a_thermal_step_only_the_rest_is_steady() -> None:
    """A step of 25% at 12 of 40 s."""
    state = _find(np.where(np.arange(4000) < 1200, 1.0, 1.25))
    assert state.start_ns is not None
    assert START + 11.8 * S <= state.start_ns <= START + 15 * S


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (np.linspace(1, 1.5, 4000), "the latency drifts by"),
        (np.where(np.arange(4000) // 800 % 2 == 0, 1.0, 1.4), "the latency switches between levels: 9.6"),
        (np.where(np.arange(4000) < 3300, 1.0, 1.4), "the latency changed 7.0 s before the end: "),
        (np.where(np.arange(4000) < 3850, 1.0, 3.0), "s before the end: "),
    ],
    ids=["drift", "bistable", "late step", "very late step"],
)
def test_a_server_that_does_not_settle_is_not_steady(level: Times, said: str) -> None:
    """Drift, slow switching, a change too close to the end: each with its reason and its figures."""
    state = _find(level)
    assert not state.steady
    assert said in state.reason


def test_a_falling_throughput_is_seen_though_the_latency_stays() -> None:
    """In an open loop that loses requests only the throughput tells."""
    rng = np.random.default_rng(1)
    done_ns = np.sort(START + (40 * S * (1 - np.sqrt(rng.uniform(size=4000)))).astype(np.int64))
    state = find_steady_state(done_ns, np.full(4000, 10 * MS), start_ns=START, end_ns=START + 40 * S)
    assert state.reason.startswith("the throughput")
    assert state.throughput_change_ratio is not None
    assert f"drifts by {state.throughput_change_ratio:+.0%} over the load" in state.reason


def test_how_far_the_throughput_moved_is_known_whatever_is_told_first() -> None:
    """One user whose answers take longer and longer: the latency is named, and the throughput fell as well. Answers of
    (1 + t / 40) hundredths of a second come at 100 / (1 + t / 40) per s. Of 40 s the first 19.75 are left out as the
    start's transient; from there it falls from 66.9 to 50/s, by 0.835/s each second about a mean of
    4000 ln(80 / 59.75) / 20.25 = 57.7/s: over 40 s by 0.579 of that.
    """
    moments = 40 * (np.exp(np.arange(2772) / 4000) - 1)
    latency = (10 * MS * (1 + moments / 40) * np.random.default_rng(1).gamma(25, 1 / 25, 2772)).astype(
        np.int64
    )
    done_ns = START + (moments * S).astype(np.int64)
    state = find_steady_state(done_ns, latency, start_ns=START, end_ns=START + 40 * S)
    assert state.reason.startswith("the latency")
    assert state.throughput_change_ratio == pytest.approx(-0.579, abs=0.05)
    assert _find(np.linspace(1, 1.5, 4000)).throughput_change_ratio == 0.0, "an open loop's rate stays"
    assert _find(np.ones(4000)).throughput_change_ratio == 0.0
    assert _find(np.ones(99)).throughput_change_ratio is None


def test_too_little_is_told_apart_from_unsteady() -> None:
    """Too few answers, too short a load, no answer at all, only zeros."""
    assert "too few to tell" in _find(np.ones(99)).reason
    nothing = np.empty(0, np.int64)
    assert "0 answers in 60.0 s" in find_steady_state(nothing, nothing, start_ns=0, end_ns=60 * S).reason
    done_ns = np.arange(START, START + 20 * S, 10 * MS)
    zeros = find_steady_state(done_ns, np.zeros_like(done_ns), start_ns=START, end_ns=START + 20 * S)
    assert not zeros.steady


def test_a_load_that_ends_during_the_warm_up_is_not_steady() -> None:
    """Not while the latency falls; a load some seconds longer is, and so is nearly every longer one."""
    t = np.arange(4000) / 100
    done_ns, latency = _answers(1 + 3 * np.exp(-t / 1.5))
    steady = [
        seconds
        for seconds in range(1, 41)
        if find_steady_state(done_ns, latency, start_ns=START, end_ns=START + seconds * S).steady
    ]
    assert steady
    assert 10 <= steady[0] <= 25
    assert len(steady) >= (40 - steady[0]) * 0.8


def _spool(path: Path, done_ns: NDArray[np.int64], latency: NDArray[np.int64], statuses: list[str]) -> Path:
    with Recorder(path) as recorder:
        for number, (end, took, status) in enumerate(
            zip(done_ns.tolist(), latency.tolist(), statuses, strict=True)
        ):
            begin = end - took
            code = recorder.status_code(status)
            recorder.append(number, MEASURE, begin, begin, end, end, code, 0, 0, 0, 1)
    return path


def test_a_load_is_judged_by_the_good_answers_of_all_its_senders(tmp_path: Path) -> None:
    """Errors and what lies outside of the load don't count; what one sender saw of a drift does."""
    done_ns, latency = _answers(np.ones(4000))
    failed = np.arange(4000) % 10 == 0
    # Timeouts take far longer from the middle on: judged by them the server would have changed.
    slow = np.where(failed & (np.arange(4000) > 2000), 900 * MS, latency)
    statuses = np.where(failed, "timeout", "ok")
    half = np.arange(4000) % 2 == 0
    spools = [
        _spool(tmp_path / f"{number}.spool", done_ns[mine], slow[mine], statuses[mine].tolist())
        for number, mine in enumerate((half, ~half))
    ]
    before = np.array([START - S]), np.array([900 * MS])
    spools.append(_spool(tmp_path / "2.spool", *before, ["ok"]))
    assert steady_state_of(spools, start_ns=START, end_ns=START + 40 * S).steady
    drifting, drift = _answers(np.linspace(1, 2, 4000))
    spools = [_spool(tmp_path / "3.spool", drifting, drift, ["ok"] * 4000), spools[0]]
    assert not steady_state_of(spools, start_ns=START, end_ns=START + 40 * S).steady


def test_a_long_load_is_judged_in_bounded_time_and_memory() -> None:
    """Ten hours have no more bins than half an hour."""
    done_ns = np.sort(np.random.default_rng(1).integers(0, 36_000 * S, 200_000))
    state = find_steady_state(done_ns, np.full(200_000, 10 * MS), start_ns=0, end_ns=36_000 * S)
    assert state.steady


def test_both_error_rates_are_below_those_of_three_windows_within_ten_percent() -> None:
    """On simulated servers with known truth, tuned on or not; ``benchmarks/load/steady_state.py`` has the table."""
    table = compare({**TUNED, **{f"held out: {k}": v for k, v in HELD_OUT.items()}}, range(3000, 3006))
    theirs, ours = rates(table, "perf_analyzer"), rates(table, "ours")
    assert ours["false-stable"] < theirs["false-stable"] / 5
    assert ours["false-unstable"] < theirs["false-unstable"]


def test_the_rule_compared_with_is_perf_analyzers() -> None:
    """The first three windows in a row that are within 10% of their mean; after ten windows it gives up."""

    def stream(latencies_ms: list[float]) -> Stream:
        done_s = np.arange(0, 50, 0.1)
        latency = np.array(latencies_ms)[(done_s // 5).astype(int)] / 1e3
        return Stream(done_s, latency, one, settles=True)

    assert perf_analyzer(stream([10] * 10)) == (0.0, 15.0)
    assert perf_analyzer(stream([30, 20, 10, 10.9, 10.5, 9, 9, 9, 9, 9])) == (10.0, 25.0)
    assert perf_analyzer(stream([10, 14] * 5)) is None
    assert perf_analyzer(stream([10 * 1.08**k for k in range(10)])) == (0.0, 15.0)
