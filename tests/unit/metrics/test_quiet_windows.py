"""The cut, on made-up timelines whose undisturbed latencies are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.noise.simulated import ALLOWED, Outcome, add_run, truth_of
from benchmarks.noise.timelines import LOADS, recording_of, window_of, work_of
from inferbench_tasks.loadgen.segmented import distribution
from inferbench_tasks.loadgen.statistics import intervals
from inferbench_tasks.metrics.disturbances import Disturbance, disturbances
from inferbench_tasks.metrics.quiet_windows import RECOVERY, quiet_windows

LOAD = {load.name: load for load in LOADS}
HALF = LOAD["half"]
NO_STOPS = np.empty((0, 2))
MS = 1_000_000


def test_where_nothing_disturbs_the_figures_are_those_of_the_whole() -> None:
    """The very same, and their intervals too: nothing is cut, so there is no bias."""
    work = work_of(HALF, 8.0, np.random.default_rng(1))
    window = window_of(work, NO_STOPS)
    disturbed = disturbances(recording_of(work, NO_STOPS), window.start_ns, window.end_ns, 2)
    assert disturbed == []
    quiet = quiet_windows(window, disturbed)
    assert quiet.cut_s == {} and quiet.time_s(window) == window.duration_s
    kept = quiet.holds(window)
    assert np.array_equal(kept, window.measured)
    figures = distribution(quiet.requests(window, kept))
    latencies_ms = (window.done_ns - window.intended_ns)[window.measured] / 1e6
    for name, bounds in intervals(latencies_ms).bounds.items():
        if name != "mean":
            assert figures["ci95"][name] == (list(bounds) if bounds else None)
    assert figures["p99"] == np.quantile(latencies_ms, 0.99, method="inverted_cdf")


def test_a_window_begins_when_the_backlog_is_what_it_was() -> None:
    """A pause of half a second leaves a queue; it is cut with the pause, and named apart from it."""
    work = work_of(HALF, 8.0, np.random.default_rng(1))
    stops = np.array([[2.0, 2.5]])
    window = window_of(work, stops)
    quiet = quiet_windows(window, [Disturbance(2000 * MS, 2500 * MS, "pause")])
    assert quiet.cut_s["pause"] == pytest.approx(0.5) and quiet.cut_s[RECOVERY] > 0.2
    again_ns = int(quiet.start_ns[1])
    assert window.in_flight_at(np.array([again_ns]))[0] <= window.in_flight_at(np.array([2000 * MS]))[0]
    before = window.sent_ns <= 2500 * MS
    assert window.done_ns[before].max() <= again_ns
    assert quiet.time_s(window) == pytest.approx(8.0 - sum(quiet.cut_s.values()))


def test_what_begins_before_the_recovery_belongs_to_the_disturbance() -> None:
    """Its backlog is measured from before the first, and the time of each cause is counted once."""
    work = work_of(HALF, 8.0, np.random.default_rng(1))
    window = window_of(work, np.array([[2.0, 2.5]]))
    two = [Disturbance(2000 * MS, 2400 * MS, "one"), Disturbance(2300 * MS, 2500 * MS, "two")]
    quiet = quiet_windows(window, two)
    assert len(quiet.start_ns) == 2
    assert quiet.cut_s["one"] == pytest.approx(0.4) and quiet.cut_s["two"] == pytest.approx(0.1)


def test_a_disturbance_without_end_leaves_nothing_behind_it() -> None:
    """What never recovers within the window is cut to its end; what came before stays."""
    work = work_of(HALF, 8.0, np.random.default_rng(1))
    window = window_of(work, NO_STOPS)
    quiet = quiet_windows(window, [Disturbance(3000 * MS, 60_000 * MS, "steal")])
    assert quiet.time_s(window) == pytest.approx(3.0) and quiet.cut_s == {"steal": pytest.approx(5.0)}
    assert quiet.longest_s(window) == pytest.approx(3.0)
    assert quiet_windows(window, [Disturbance(-MS, 60_000 * MS, "steal")]).time_s(window) == 0.0


@pytest.mark.parametrize(
    ("load", "taken", "length_s", "real"),
    [
        ("light", 0.4, 0.5, True),
        ("half", 0.2, 0.2, True),
        ("four workers", 0.1, 0.05, True),
        ("half", 0.2, 0.3, False),
    ],
)
def test_the_cut_has_no_bias_and_its_intervals_hold(
    load: str, taken: float, length_s: float, real: bool
) -> None:
    """15.27: pauses of 10 to 40%, and cuts of what took nothing: near the truth in 9 of 10, on both sides of it."""
    outcome, truth = Outcome(), truth_of(LOAD[load], 500_000)
    for seed in range(8):
        add_run(
            outcome,
            LOAD[load],
            truth,
            taken=taken,
            length_s=length_s,
            seconds=40.0,
            seed=seed,
            real=real,
        )
    assert outcome.nulls == 0
    for name, allowed in ALLOWED.items():
        assert abs(float(np.median(outcome.errors[name]))) < allowed / 2
        assert outcome.within(name) >= 7 / 8
    held = [hold for holds in outcome.holds.values() for hold in holds]
    assert np.mean(held) >= 0.85
