"""The search for the highest load of which enough answers are good, against servers of which the answer is known."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.search.capacity import (
    CapacitySearch,
    Step,
    judged,
    least_requests,
    lower_bound,
)
from inferbench_tasks.loadgen.early_stopping import decide

Run = Callable[[float, float], dict[str, Any] | None]


def result(good: int | None, due: int | None, verdict: str = "valid", **figures: Any) -> dict[str, Any]:
    """A run's document as far as the search reads it."""
    return {
        "run_id": "r",
        "verdict": verdict,
        "summary": {"tokens": {"good": good, "requests": due, "reasons": {}}},
        "certificate": {"figures": {"growing_backlog": None, **figures}},
    }


def queued(slots: int, service_s: float, bound_s: float) -> Run:
    """Equal gaps at a server of so many slots; good is who waits at most so long. Its knee: slots / service."""

    def run(rate: float, duration_s: float) -> dict[str, Any]:
        free = [0.0] * slots
        due = round(rate * duration_s)
        good = 0
        for number in range(due):
            start = max(number / rate, heapq.heappop(free))
            heapq.heappush(free, start + service_s)
            good += start - number / rate <= bound_s
        return result(good, due)

    return run


def searched(run: Run, start: float, **options: Any) -> CapacitySearch:
    """A search that came to its end."""
    search = CapacitySearch(start, 0.95, **{"duration_s": 20.0, "most_runs": 12, **options})
    while (turn := search.next()) is not None:
        search.tell(run(*turn))
    return search


@pytest.mark.parametrize(
    ("good", "due", "low"), [(59, 59, 0.95049), (58, 58, 0.94966), (95, 100, 0.89775), (0, 9, 0.0)]
)
def test_the_bound_is_clopper_and_pearsons(good: int, due: int, low: float) -> None:
    """Of 59 good ones 0.05^(1/59); of 95 in 100 the p at which P(X >= 95) is 5%; of none nothing."""
    assert lower_bound(good, due) == pytest.approx(low, abs=1e-5)


def test_so_many_good_requests_keep_the_ratio_and_one_fewer_do_not() -> None:
    """What a load needs at least is what the bound itself asks for."""
    for ratio in (0.5, 0.9, 0.95, 0.99):
        least = least_requests(ratio)
        assert lower_bound(least, least) >= ratio > lower_bound(least - 1, least - 1)


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("factor", [0.3, 0.7, 1.0, 1.9])
def test_a_known_knee_is_found_to_five_percent_in_eight_runs(slots: int, factor: float) -> None:
    """Slots / service time, from starts below and above it, with a bound of a tenth of the service."""
    knee = slots / 0.25
    search = searched(queued(slots, 0.25, 0.025), start=knee * factor)
    answer = search.answer()
    # 5%, and what a backlog of 20 s needs to show itself
    assert answer.value is not None and answer.value == pytest.approx(knee, rel=0.06)
    assert (
        answer.over is not None and answer.over <= answer.value * 1.05 * (1 + 1e-9) and answer.reason is None
    )
    assert answer.runs <= 8


@pytest.mark.parametrize("most", [1, 2, 7, 16, 23])
@pytest.mark.parametrize("start", [1, 4, 40])
def test_users_are_found_to_one(most: int, start: int) -> None:
    """Whole numbers of users alone are tried; the answer is the last that keeps the ratio, or 5% below it."""
    tried: list[float] = []

    def run(users: float, duration_s: float) -> dict[str, Any]:
        tried.append(users)
        return result(100 if users <= most else 50, 100)

    answer = searched(run, start, users=True).answer()
    assert answer.value is not None and most / 1.05 <= answer.value <= most
    assert all(users == int(users) >= 1 for users in tried) and len(set(tried)) == len(tried)


def test_loads_are_as_long_as_the_bound_needs_requests() -> None:
    """At one request in two seconds 20 s can show nothing: 1.5 x 59 requests take 177 s."""
    search = CapacitySearch(0.5, 0.95, duration_s=60.0, most_runs=12)
    turn = search.next()
    assert turn is not None
    assert turn[0] == 0.5 and turn[1] == pytest.approx(177.0)


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (result(100, 100), "kept"),
        (result(98, 100), "undecided"),
        (result(88, 100), "broken"),
        (result(952, 1000), "undecided"),
        (result(50, 50), "undecided"),
        (result(None, 100), "undecided"),
        (result(100, 100, growing_backlog="the backlog grows"), "broken"),
        (result(100, 100, verdict="disturbed: something else ran"), "unusable"),
        (result(100, 100, verdict="invalid: sent late"), "unusable"),
        (None, "unusable"),
    ],
)
def test_what_a_run_says(document: dict[str, Any] | None, outcome: str) -> None:
    """A ratio that the load itself just keeps is not known to be kept, nor to be broken. A load that does not count
    says nothing.
    """
    finding, step = judged(10.0, 20.0, document, 0.95, 80.0)
    assert finding.outcome == outcome == step.outcome
    assert step.reason


def test_a_server_that_drops_requests_is_beyond_its_capacity() -> None:
    """Its certificate fails by the overload itself; with any other failed check nobody knows whose fault it was."""
    reason = {
        "check": "errors",
        "text": "half failed",
        "figure": 0.5,
        "bound": 0.01,
        "unit": None,
        "stage": None,
    }
    document = result(50, 100, verdict="invalid: half failed")
    document["judgement"] = {"kind": "invalid", "reasons": [reason]}
    assert judged(10.0, 20.0, document, 0.95, 80.0)[0].outcome == "broken"
    document["judgement"]["reasons"].append({**reason, "check": "client_stall", "text": "stalled"})
    document["verdict"] = "invalid: half failed; stalled"
    assert judged(10.0, 20.0, document, 0.95, 80.0)[0].outcome == "unusable"


def test_one_odd_failure_among_few_is_no_overload() -> None:
    """1 of 60 failed, more than the certificate's 1%: 59 of 60 may well be 0.95 or more of all: undecided."""
    reason = {
        "check": "errors", "text": "failed", "figure": 1 / 60, "bound": 0.01, "unit": None, "stage": None,
    }  # fmt: skip
    document = result(59, 60, verdict="invalid: failed")
    document["judgement"] = {"kind": "invalid", "reasons": [reason]}
    finding, _ = judged(10.0, 20.0, document, 0.95, 80.0)
    assert finding.outcome == "undecided" and finding.needed_s == 80.0
    assert judged(10.0, 80.0, document, 0.95, 80.0)[0].needed_s is None


def test_bad_answers_in_a_row_count_as_what_they_are_worth() -> None:
    """980 of 1,000 keep 0.95 if they are independent; with the bad ones in rows of 20 they are worth about 50, of
    which 49 keep 0.9 and no more.
    """
    document = result(980, 1000)
    assert judged(10.0, 20.0, document, 0.95, 20.0)[0].outcome == "kept"
    document["summary"]["tokens"]["good_decision"] = {"worth_requests": 50.0}
    finding, step = judged(10.0, 20.0, document, 0.95, 20.0)
    assert finding.outcome == "undecided" and step.good_ratio_low == pytest.approx(lower_bound(49, 50))
    assert "worth 50 independent ones" in step.reason


def test_a_bound_of_what_comes_in_rows_is_above_the_truth_no_more_often_than_it_says() -> None:
    """Rows of 25 alike, 93 of 100 good: of 200 loads of 2,000 requests at most 5% may be said to keep 0.95."""
    rng = np.random.default_rng(5)
    kept = 0
    for _ in range(200):
        good = np.repeat(rng.random(80) < 0.93, 25)
        document = result(int(good.sum()), len(good))
        document["summary"]["tokens"]["good_decision"] = {"worth_requests": decide(~good, 0.95).worth}
        kept += judged(10.0, 20.0, document, 0.95, 20.0)[0].outcome == "kept"
    assert kept <= 0.06 * 200


def flawed(bad_ratio: float, knee: float, seed: int) -> Run:
    """A server that fails so many answers at random under any load, and half of them above its knee."""
    draws = np.random.default_rng(seed)

    def run(rate: float, duration_s: float) -> dict[str, Any]:
        due = round(rate * duration_s)
        return result(int(draws.binomial(due, 0.5 if rate > knee else 1 - bad_ratio)), due)

    return run


def test_answers_that_fail_at_random_do_not_hide_the_knee() -> None:
    """At 1 and 3% bad answers under any load, 0.95 is kept up to the knee: what is found lies within 5% of it, and
    where luck hides it no bound is named; at 10% no load keeps the ratio, and none is named.
    """
    knee, least = 12.0, {0.01: 190, 0.03: 100}
    for bad_ratio, found in least.items():
        answers = [searched(flawed(bad_ratio, knee, seed), start=8.0).answer() for seed in range(200)]
        values = [answer.value for answer in answers if answer.value is not None]
        assert len(values) >= found and all(knee / 1.05 - 1e-9 <= value <= knee for value in values)
        assert all(answer.value is not None or answer.reason for answer in answers)
    assert all(searched(flawed(0.10, knee, seed), start=8.0).answer().value is None for seed in range(200))


def unsure_between(low: float, high: float) -> Run:
    """Good up to there, bad from there, and no load counts in between."""

    def run(rate: float, _: float) -> dict[str, Any]:
        verdict = "invalid: sent late" if low < rate < high else "valid"
        return result(1000 if rate < high else 0, 1000, verdict=verdict)

    return run


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda rate, _: result(1000, 1000), "no higher load is known to break it"),
        (lambda rate, _: result(0, 1000), "no load that was tried is known to keep"),
        (lambda rate, _: result(1, 1, verdict="disturbed: by others"), "no load that was tried is known to keep"),
        (unsure_between(14, 30), "what lies between stayed open"),
    ],
)  # fmt: skip
def test_no_bound_is_said_where_there_is_none(run: Run, words: str) -> None:
    """A server without a knee, one that is never good, a machine that is never quiet, a gap where no load counts."""
    answer = searched(run, start=10.0).answer()
    assert answer.value is None
    assert (
        answer.reason is not None and answer.reason.startswith("no bound found: ") and words in answer.reason
    )


def test_an_unusable_load_is_made_again() -> None:
    """One disturbed load does not cost the answer; every step is told with the run that it was."""
    times = iter(range(100))
    server = queued(4, 0.25, 0.025)
    search = searched(lambda rate, seconds: None if next(times) == 1 else server(rate, seconds), start=10.0)
    assert search.answer().value == pytest.approx(16.0, rel=0.06)
    outcomes = [step.outcome for step in search.steps]
    assert outcomes[1] == "unusable" and search.steps[1].level == search.steps[2].level
    assert all(isinstance(step, Step) for step in search.steps)
