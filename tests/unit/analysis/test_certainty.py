"""When two results are the same: symmetric, careful where a run is, and as sure as it says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferbench_tasks.analysis.certainty import (
    DRIFT_RATIO,
    MOST_RUNS,
    Change,
    Estimate,
    estimate,
    length_to_settle,
    of_one_run,
    runs_to_settle,
)
from inferbench_tasks.analysis.stated import UNBOUNDED_RATIO, Stated, needed, stated
from inferbench_tasks.dotted import set_at, value_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.statistics import NAMES, intervals, percentiles

ESTIMATES = st.builds(
    Estimate,
    mean=st.floats(1e-3, 1e6) | st.floats(-1e3, 0),
    between=st.floats(0, 1e5),
    runs=st.integers(1, 20),
    freedom=st.floats(3, 50),
    stated=st.builds(Stated, within=st.floats(0, 1e5), systematic=st.floats(0, 1e4)),
)
SUMMARY: dict[str, Any] = {
    "ok": 400,
    "e2e_latency_ms": {"mean": 5.0, "p50": 4.0, "p99": 20.0, "ci95": {"mean": [4.9, 5.1], "p99": None}},
    "throughput_rps": 100.0,
    "throughput_samples_per_s": 400.0,
    "goodput_rps": 90.0,
    "error_ratio": 0.0,
    "energy": {"joule_per_request": 0.5, "uncertainty_ratio": 0.6},
    "cost_usd_per_1k": 0.1,
}


@settings(deadline=None, max_examples=60)
@given(ESTIMATES, ESTIMATES)
def test_the_order_of_two_results_makes_no_difference(a: Estimate, b: Estimate) -> None:
    """As sure that the second is above the first as that the first is below the second."""
    forth, back = Change.between(a, b), Change.between(b, a)
    assert forth.rises == pytest.approx(1 - back.rises, abs=1e-9)
    assert forth.probability == pytest.approx(back.probability, abs=1e-9)
    low, high = forth.interval()
    assert (low, high) == pytest.approx((-back.interval()[1], -back.interval()[0]), abs=1e-6, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(ESTIMATES)
def test_a_result_does_not_differ_from_itself(value: Estimate) -> None:
    """Whatever its error, none included."""
    assert not Change.between(value, value).settled
    exact = Estimate(value.mean, 0.0, 1, 3.0)
    assert not Change.between(exact, exact).settled


@settings(deadline=None, max_examples=60)
@given(ESTIMATES, ESTIMATES, st.floats(1.1, 100))
def test_a_larger_error_makes_nothing_surer(a: Estimate, b: Estimate, times: float) -> None:
    """Of either kind, at the same degrees of freedom of both."""
    a, b = (replace(e, freedom=10.0, runs=1) for e in (a, b))
    grown = replace(
        a, stated=Stated(a.stated.within * times, a.stated.systematic * times), between=a.between * times
    )
    narrow, wide = Change.between(a, b), Change.between(grown, b)
    assert abs(wide.size) == abs(narrow.size)
    assert wide.error >= narrow.error


@pytest.mark.parametrize(("ratio", "differ"), [(1.05, False), (1.09, False), (1.12, True), (1 / 1.12, True)])
def test_single_runs_differ_from_about_a_tenth_on(ratio: float, differ: bool) -> None:
    """Where nothing else is known than what a quiet machine shows."""
    assert Change.between(of_one_run(10.0), of_one_run(10.0 * ratio)).settled is differ


def test_repeated_runs_of_a_configuration_tell_more_of_one_of_them() -> None:
    """The same two runs: with steady repeats they differ, with unsteady ones they don't."""
    steady, unsteady = (
        Change.between(of_one_run(10.0, same), of_one_run(11.2, [value * 1.12 for value in same]))
        for same in ([10.0, 10.1, 9.9, 10.0], [10.0, 7.0, 13.0, 12.0])
    )
    assert steady.settled and not unsteady.settled


def test_more_runs_settle_what_they_were_said_to() -> None:
    """With so many runs more of each, if the means stay; with one fewer not yet; and none where no number would."""
    a, b = estimate([10.0, 10.2]), estimate([10.6, 10.4])
    more = runs_to_settle(a, b)
    assert more is not None and 1 < more <= MOST_RUNS
    for count, settled in ((more, True), (more - 1, False)):
        grown = [replace(e, runs=e.runs + count, freedom=e.freedom + count) for e in (a, b)]
        assert Change.between(*grown).settled is settled
    assert runs_to_settle(estimate([10.0]), estimate([10.01])) is None


def test_longer_runs_settle_what_their_own_error_hides_and_nothing_else() -> None:
    """A difference of 20% with wide intervals takes so much longer runs; one within the drift takes more runs."""
    a, b = (of_one_run(mean, stated=Stated(within=2.0)) for mean in (10.0, 12.0))
    times = length_to_settle(a, b)
    assert times is not None
    for factor, settled in ((1.0, True), (0.9, False)):
        longer = [replace(e, stated=e.stated.after(times * factor)) for e in (a, b)]
        assert Change.between(*longer).settled is settled
    near = of_one_run(10.0 * (1 + DRIFT_RATIO), stated=Stated(within=2.0))
    assert length_to_settle(a, near) is None


@pytest.mark.parametrize(
    ("figure", "within", "systematic"),
    [
        ("mean_ms", 0.05, 0.0),
        ("p99_ms", UNBOUNDED_RATIO * 20, 0.0),
        ("throughput_rps", 5.0, 0.0),
        ("throughput_samples_per_s", 20.0, 0.0),
        ("cost_usd_per_1k", 0.005, 0.0),
        ("joule_per_request", 0.0, 0.15),
        ("error_ratio", 0.0, 0.0),  # of no number of requests
        ("p90_ms", 0.0, 0.0),
    ],
)
def test_a_result_states_its_own_error(figure: str, within: float, systematic: float) -> None:
    """By an interval, by what it was counted from, by its method; a percentile that could not be bounded says so."""
    value = stated(FIGURES[figure], {"summary": SUMMARY})
    assert value.within == pytest.approx(within, rel=0.03)
    assert value.systematic == pytest.approx(systematic, rel=0.03)


@pytest.mark.parametrize("figure", FIGURES)
def test_what_is_read_for_it_is_enough(figure: str) -> None:
    """A result of which only those fields were read states the same."""
    whole = {"summary": SUMMARY, "device": {"name": "Example CPU"}}
    part: dict[str, Any] = {}
    for path in needed(FIGURES[figure]):
        if (value := value_at(whole, path)) is not None:
            set_at(part, path, value)
    if FIGURES[figure].value(SUMMARY) is not None:
        assert FIGURES[figure].value(part["summary"]) == FIGURES[figure].value(SUMMARY)
        assert stated(FIGURES[figure], part) == stated(FIGURES[figure], whole)


def test_what_a_figure_follows_from_is_read_with_it() -> None:
    """An energy of a sample from before it was stored is that of a request of four samples, 0.5 / 4 = 0.125 J, and its
    method's error 0.6 x 0.125 / 1.96 = 0.0383: from the parts of the result that are read for it alone. Each figure
    that follows from others names them.
    """
    figure = FIGURES["joule_per_sample"]
    assert figure.stored(SUMMARY) is None
    part: dict[str, Any] = {}
    for path in needed(figure):
        if (value := value_at({"summary": SUMMARY}, path)) is not None:
            set_at(part, path, value)
    assert figure.value(part["summary"]) == pytest.approx(0.125)
    assert stated(figure, part).systematic == pytest.approx(0.0383, abs=1e-4)
    assert all(each.follows_from for each in FIGURES.values() if each.otherwise)
    assert "summary" in needed(replace(figure, follows_from=())), "whatever a package's own reads"


def queue_ms(rng: np.random.Generator, busy: float, count: int) -> Any:
    """Latencies at a queue with one server that is so busy (Lindley's recursion)."""
    work, gaps = rng.exponential(busy, count), rng.exponential(1, count)
    lead = np.concatenate([[0.0], np.cumsum(work[:-1] - gaps[1:])])
    return lead - np.minimum.accumulate(lead) + work


def test_what_a_run_could_not_bound_differs_so_much_between_runs() -> None:
    """Percentiles without an interval, of queues half to very busy: the ratio that is assumed is the usual one."""
    squares = []
    for busy in (0.5, 0.7, 0.9):
        for count in (700, 2000):
            logs: dict[str, list[float]] = {}
            for seed in range(16):
                values = queue_ms(np.random.default_rng([seed, count, round(busy * 10)]), busy, count)
                bounds, exact = intervals(values).bounds, percentiles(values)
                for quantile, name in NAMES.items():
                    if (value := exact[quantile]) is not None and bounds[name] is None:
                        logs.setdefault(name, []).append(math.log(value))
            squares += [float(np.var(values, ddof=1)) for values in logs.values() if len(values) > 7]
    assert len(squares) > 10
    assert pytest.approx(math.sqrt(float(np.mean(squares))), rel=0.3) == UNBOUNDED_RATIO


@pytest.mark.parametrize(("gain", "error", "freedom"), [(0.0, 0.1, 3), (0.05, 0.04, 5), (-0.2, 0.1, 8)])
def test_what_it_costs_to_be_wrong_is_the_mean_of_what_is_lost(
    gain: float, error: float, freedom: float
) -> None:
    """As integrated over Student's t; for whatever is better, the gain has the other sign where less is better."""
    from scipy.integrate import quad
    from scipy.stats import t

    lost, _ = quad(lambda x: max(0.0, -x) * t.pdf(x, freedom, gain, error), -50, 0, limit=500)
    assert Change(gain, error, freedom).expected_loss(higher=True) == pytest.approx(lost, rel=1e-3)
    assert Change(-gain, error, freedom).expected_loss(higher=False) == pytest.approx(lost, rel=1e-3)


def test_what_it_costs_to_be_wrong_at_its_limits() -> None:
    """Of many runs as of a normal: 0.3989 errors where two look alike; nothing where one is surely better; none known
    of a figure that may be 0, or of so few runs that there is no mean.
    """
    assert Change(0.0, 1.0, 1e6).expected_loss(higher=True) == pytest.approx(0.398942, rel=1e-4)
    assert Change(0.1, 0.0, 4).expected_loss(higher=True) == 0
    assert Change(-0.1, 0.0, 4).expected_loss(higher=True) == pytest.approx(0.1)
    assert Change(0.1, 0.1, 4, shares=False).expected_loss(higher=True) is None
    assert Change(0.1, 0.1, 1).expected_loss(higher=True) is None
