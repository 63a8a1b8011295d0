"""The search for the highest rate that keeps an objective: which rate to try next, and what is known by then.

The rate is doubled or halved until the answer lies between two, then their geometric mean is tried. What decides is the
probe's own judgement (``rate_probe``). A rate that stays undecided bounds the answer from neither side: the search goes
on below it for the highest rate kept, then above it for the lowest one broken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

#: ``kept``, ``broken``: decided. ``undecided``: a load as it should be, of too few requests or too close to the bound.
#: ``unusable``: the load was not as it should be, or the machine was disturbed: it says nothing of the rate.
Outcome = Literal["kept", "broken", "undecided", "unusable"]

#: A probe that is undecided is repeated at a length that would decide, up to so many times its own.
LONGEST = 4.0
#: How much longer than estimated, since the estimate comes from the undecided probe itself.
_MARGIN = 1.2
#: An unusable probe is repeated so many times; then the rate counts as undecided.
REPEATS = 2
#: Of so many rates no probe counts, and the search ends.
HOPELESS_RATES = 2
_STEP = 2.0
#: Against a search that no time limit ends.
_MOST_PROBES = 200


@dataclass(frozen=True)
class Finding:
    """What a probe said of its rate.

    ``leans``: whether it looks kept, where it is undecided; None where nothing says so. ``needed_s``: how long a load
    would decide, None where none would.
    """

    rate_rps: float
    duration_s: float
    outcome: Outcome
    leans: bool | None = None
    needed_s: float | None = None


@dataclass(frozen=True)
class Try:
    """The next probe."""

    rate_rps: float
    duration_s: float


@dataclass
class RateSearch:
    """``next`` says what to try, ``tell`` takes what came of it.

    ``duration_s``: of a probe. ``lowest_rps``: below it even the longest probe has too few requests to decide.
    """

    start_rps: float
    resolution_ratio: float
    duration_s: float
    lowest_rps: float = 0.0
    #: No rate above it is tried: what the client can send. Lowered by ``cap``.
    limit_rps: float = math.inf
    #: Levels are whole numbers (users): two that follow each other are as near as can be.
    whole: bool = False
    findings: list[Finding] = field(default_factory=list)

    def tell(self, finding: Finding) -> None:
        """Take in a probe's finding."""
        self.findings.append(finding)

    def cap(self, limit_rps: float) -> None:
        """From now on no rate above ``limit_rps`` is tried."""
        self.limit_rps = min(self.limit_rps, limit_rps)

    @property
    def kept_rps(self) -> float | None:
        """The highest rate that was kept; None where none was."""
        return max(self._rates("kept"), default=None)

    @property
    def broken_rps(self) -> float | None:
        """The lowest rate that broke the objective; None where none did."""
        return min(self._rates("broken"), default=None)

    @property
    def undecided_rps(self) -> list[float]:
        """The rates that no probe decided, ascending."""
        return sorted(self._rates("undecided", "unusable"))

    @property
    def hopeless(self) -> bool:
        """Whether no probe of the first rates counts: what disturbs them is not the rate, a lower one tells no more."""
        rates = {finding.rate_rps for finding in self.findings}
        return len(rates) >= HOPELESS_RATES and all(f.outcome == "unusable" for f in self.findings)

    def next(self) -> Try | None:
        """What to try next; None where the answer is as narrow as it was asked for, or can't become narrower."""
        if len(self.findings) >= _MOST_PROBES:
            return None
        if self.findings and (again := self._again(self.findings[-1])) is not None:
            return again
        if self.hopeless:
            return None
        rate_rps = self._next_rate()
        return None if rate_rps is None else Try(rate_rps, self.duration_s)

    def _again(self, last: Finding) -> Try | None:
        """The same rate once more, where that may decide it."""
        same = [finding for finding in self.findings if finding.rate_rps == last.rate_rps]
        if last.outcome == "unusable":
            unusable = sum(finding.outcome == "unusable" for finding in same)
            return Try(last.rate_rps, last.duration_s) if unusable <= REPEATS else None
        if last.outcome != "undecided" or last.needed_s is None:
            return None
        needed_s = max(last.needed_s * _MARGIN, last.duration_s)
        longest_s = self.duration_s * LONGEST
        if last.duration_s > self.duration_s or last.needed_s > longest_s:
            return None  # it was lengthened already, or that would not do
        return Try(last.rate_rps, min(needed_s, longest_s))

    def _next_rate(self) -> float | None:
        """The next new rate: first where it seems to break, then from the highest kept up, then the broken down."""
        if not self.findings:
            return self._within(self.start_rps)
        tried = sorted({finding.rate_rps for finding in self.findings})
        kept, broken = self.kept_rps, self.broken_rps
        looks_kept = [*self._rates("kept"), *(rate for rate in self._leaning(True) if _below(rate, broken))]
        looks_broken = [*self._rates("broken"), *self._leaning(False)]
        low = max(looks_kept, default=None)
        high = min((rate for rate in looks_broken if low is None or rate > low), default=None)
        if low is None:
            return self._down(tried)
        if high is None and (higher := self._up(tried)) is not None:
            return higher
        if high is not None and not self.near(low, high):
            return self._between(low, high)
        if kept is None:
            return self._down(tried)
        above = min((rate for rate in tried if rate > kept), default=kept)
        if not self.near(kept, above):
            return self._between(kept, above)
        if broken is None:
            return self._up(tried)
        below = max(rate for rate in tried if rate < broken)
        return None if self.near(below, broken) else self._between(below, broken)

    def _rates(self, *outcomes: Outcome) -> list[float]:
        """The rates of which that is the newest word."""
        newest = {finding.rate_rps: finding.outcome for finding in self.findings}
        return [rate for rate, outcome in newest.items() if outcome in outcomes]

    def _leaning(self, kept: bool) -> Iterable[float]:
        """The undecided rates that look kept, or not; what nothing is known of does not look kept."""
        newest = {finding.rate_rps: finding for finding in self.findings}
        return [
            rate
            for rate, finding in newest.items()
            if finding.outcome in ("undecided", "unusable") and (finding.leans is True) == kept
        ]

    def near(self, low: float, high: float) -> bool:
        """Whether nothing between the two needs to be tried."""
        return self._alike(low, high) or (self.whole and high - low <= 1)

    def _alike(self, low: float, high: float) -> bool:
        return high <= low * (1 + self.resolution_ratio) * (1 + 1e-9)

    def _between(self, low: float, high: float) -> float:
        middle = math.sqrt(low * high)
        return min(max(float(round(middle)), low + 1), high - 1) if self.whole else middle

    def _within(self, rate_rps: float) -> float:
        rate_rps = float(math.ceil(rate_rps)) if self.whole else rate_rps
        return min(max(rate_rps, self.lowest_rps), self.limit_rps)

    def _up(self, tried: list[float]) -> float | None:
        rate_rps = self._within(tried[-1] * _STEP)
        return None if rate_rps <= tried[-1] or self._alike(tried[-1], rate_rps) else rate_rps

    def _down(self, tried: list[float]) -> float | None:
        rate_rps = self._within(tried[0] / _STEP)
        return None if rate_rps >= tried[0] or self._alike(rate_rps, tried[0]) else rate_rps


def doubts(search: RateSearch, stopped: str | None) -> list[str]:
    """What a reader of the answer should know; ``stopped``: why it was ended before its answer was narrow enough."""
    warnings = [f"max_rate: {stopped}"] if stopped else []
    if search.hopeless:
        warnings.append(
            f"max_rate: the search was ended, for none of its {len(search.findings)} probes at {HOPELESS_RATES} rates "
            "counts, and a lower rate would tell no more: run it again once the machine is quieter"
        )
    if search.kept_rps is None:
        warnings.append("max_rate: no rate that was tried is known to keep the objective")
    elif search.broken_rps is None:
        warnings.append(
            f"max_rate: {search.kept_rps:.4g} requests/s keep the objective, and no higher rate is known to break it: "
            "the answer is a lower bound"
        )
    unusable = sum(finding.outcome == "unusable" for finding in search.findings)
    if unusable:
        warnings.append(f"max_rate: {unusable} of {len(search.findings)} probes don't count")
    return warnings


def _below(rate_rps: float, bound_rps: float | None) -> bool:
    return bound_rps is None or rate_rps < bound_rps
