"""The highest rate, or the most users, of which enough answers are good: what a run says of it, what to try next.

Pure: the caller makes the runs. A load is kept where the lower 95% bound of its good ratio (Clopper and Pearson 1934,
one side) keeps ``slo.min_good_ratio``, its backlog does not grow and its certificate holds. What is not known is no
answer: a search whose loads don't count ends without a bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.loadgen.rate_search import LONGEST, Finding, Outcome, RateSearch, Try

CONFIDENCE = 0.95
#: The answer lies between a load kept and one that is not, so near to each other.
RESOLUTION_RATIO = 0.05
#: A load has so many times the requests that it needs if all are good.
_MARGIN = 1.5
#: Checks that an overloaded server fails by itself, however well the load was sent.
_BY_THE_SERVER = {"errors", "dropped", "ended_early"}


def lower_bound(good: float, due: float) -> float:
    """The share of good requests that lies below the true one in 95% of all loads; 0.0 without a good one.

    Of independent requests: the p with P(X >= good) = 5%, X binomial of ``due`` and p. Of what others are worth, which
    is no whole number, by the same regularised beta function.
    """
    from scipy.special import betaincinv

    if not 0 <= good <= due or not due:
        raise ValueError(f"{good} of {due} requests")
    return float(betaincinv(good, due - good + 1, 1 - CONFIDENCE)) if good else 0.0


def least_requests(min_good_ratio: float) -> int:
    """With fewer requests not even a load without a bad one keeps the ratio."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(min_good_ratio))


@dataclass(frozen=True)
class Step:
    """One load of the search: how much was offered (requests/s, or users), and what came of it."""

    level: float
    outcome: Outcome
    good: int | None
    due: int | None
    good_ratio_low: float | None
    reason: str
    run_id: str | None


def upper_bound(good: float, due: float) -> float:
    """The share of good requests that lies above the true one in 95% of all loads; 1.0 without a bad one."""
    return 1 - lower_bound(due - good, due)


def judged(
    level: float,
    duration_s: float,
    document: Mapping[str, Any] | None,
    min_good_ratio: float,
    longest_s: float,
) -> tuple[Finding, Step]:
    """What a run's result says of its load; ``duration_s`` as the search asked for it, which can be ``longest_s``.

    A load that keeps the ratio or breaks it within its 95% bounds is decided. One between the two is to be made again
    for as long as would decide it, and stays undecided where no allowed length would.
    """
    tokens = (((document or {}).get("summary") or {}).get("tokens")) or {}
    good, due = tokens.get("good"), tokens.get("requests")
    # Bad answers come in clusters where a queue makes them: so many independent requests is the load worth.
    worth = min((tokens.get("good_decision") or {}).get("worth_requests") or math.inf, due or 0.0)
    independent = worth / due if due else 1.0
    low = high = None
    if due and good is not None:
        low, high = (bound(good * independent, worth) for bound in (lower_bound, upper_bound))

    def said(outcome: Outcome, reason: str, needed_s: float | None = None) -> tuple[Finding, Step]:
        leans = bool(due) and good is not None and good / due >= min_good_ratio
        step = Step(level, outcome, good, due, low, reason, (document or {}).get("run_id"))
        return Finding(level, duration_s, outcome, leans, needed_s), step

    if document is None:
        return said("unusable", "the run left no result")
    verdict = Verdict.of(document)
    if verdict is None:
        return said("unusable", "the run has no verdict")
    kept = low is not None and low >= min_good_ratio
    if not verdict.valid:
        checks = {reason.check for reason in verdict.reasons}
        if verdict.kind != "invalid" or not checks <= _BY_THE_SERVER or kept:
            return said("unusable", str(verdict))
        # An odd failure among few is no overload.
        if checks == {"errors"} and high is not None and high >= min_good_ratio:
            longer_s = longest_s if longest_s > duration_s else None
            return said("undecided", f"{verdict}; {good} of {due} requests were good", longer_s)
        return said("broken", str(verdict))
    if backlog := (document.get("certificate") or {}).get("figures", {}).get("growing_backlog"):
        return said("broken", str(backlog))
    if low is None or high is None or not due or good is None:
        reason = (tokens.get("reasons") or {}).get("good_ratio") or "which answers are good is not known"
        return said("undecided", str(reason), longest_s if longest_s > duration_s else None)
    clustered = f", worth {worth:.3g} independent ones" if independent < 1 else ""
    text = f"{good} of {due} requests were good{clustered}: at least {low:.2%} of all"
    if kept:
        return said("kept", text)
    if high < min_good_ratio:
        return said("broken", text)
    times = _times_longer(good * independent, worth, min_good_ratio)
    if (needed_s := duration_s * times) <= longest_s:
        return said(
            "undecided", f"{text}, which {needed_s / duration_s:.3g} times the load would decide", needed_s
        )
    if due < least_requests(min_good_ratio):
        return said("undecided", f"{text}; it takes {least_requests(min_good_ratio)} requests")
    return said("undecided", f"{text}, which no allowed length would decide")


def _times_longer(good: float, due: float, min_good_ratio: float) -> float:
    """By how much a load of the same good ratio has to be longer until a bound decides; infinity above 100 times."""
    for times in (1.25 * 1.25**step for step in range(20)):
        more, all_good = round(due * times), round(good * times)
        if lower_bound(all_good, more) >= min_good_ratio or upper_bound(all_good, more) < min_good_ratio:
            return times
    return math.inf


@dataclass
class CapacitySearch:
    """``next`` says which load to make and for how long, ``tell`` takes its result; then ``answer``.

    ``start``: requests/s, or users where ``users``, which are whole. ``most_runs``: it ends after so many.
    """

    start: float
    min_good_ratio: float
    duration_s: float
    most_runs: int
    users: bool = False
    steps: list[Step] = field(default_factory=list)
    _turn: Try | None = None

    def __post_init__(self) -> None:
        lowest = 1.0 if self.users else self._needed / (self.duration_s * LONGEST)
        self._levels = RateSearch(
            self.start, RESOLUTION_RATIO, self.duration_s, lowest_rps=lowest, whole=self.users
        )

    @property
    def _needed(self) -> float:
        return _MARGIN * least_requests(self.min_good_ratio)

    def next(self) -> tuple[float, float] | None:
        """The level and the seconds of the next load; None where the answer is narrow enough, or none comes."""
        turn = self._levels.next() if len(self.steps) < self.most_runs else None
        self._turn = turn
        if turn is None:
            return None
        enough_s = 0.0 if self.users else self._needed / turn.rate_rps
        return turn.rate_rps, max(self.duration_s, enough_s) * turn.duration_s / self.duration_s

    def tell(self, document: Mapping[str, Any] | None) -> Step:
        """Take in the result of the run that ``next`` asked for; None where it left none."""
        if self._turn is None:
            raise RuntimeError("no load was asked for")
        turn = self._turn
        # A load is lengthened once.
        longest_s = turn.duration_s if turn.duration_s > self.duration_s else self.duration_s * LONGEST
        finding, step = judged(turn.rate_rps, turn.duration_s, document, self.min_good_ratio, longest_s)
        self._levels.tell(finding)
        self.steps.append(step)
        return step

    def answer(self) -> Capacity:
        """What is known by now."""
        kept, over = self._levels.kept_rps, self._levels.broken_rps
        if kept is not None and over is not None and over < kept:
            why = f"{over:.4g} did not keep the ratio, and {kept:.4g} did, which is more: they contradict each other"
        elif kept is None:
            why = "no load that was tried is known to keep the ratio"
        elif over is None:
            why = f"{kept:.4g} keep the ratio, and no higher load is known to break it"
        elif not self._levels.near(kept, over):
            why = f"{kept:.4g} keep the ratio and {over:.4g} don't; what lies between stayed open"
        else:
            return Capacity(kept, kept, over, None, len(self.steps))
        if len(self.steps) >= self.most_runs:
            why += f"; ended after {self.most_runs} runs"
        return Capacity(None, kept, over, f"no bound found: {why}", len(self.steps))


@dataclass(frozen=True)
class Capacity:
    """``value``: the highest load that keeps the ratio, known to 5% or one user; None: no bound was found, and why."""

    value: float | None
    kept: float | None
    over: float | None
    reason: str | None
    runs: int
