"""What a run's objective says of each figure that it bounds: value, bound, and whether it was kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


#: Where the distribution of latencies stands in a summary.
LATENCY = "e2e_latency_ms."


@dataclass(frozen=True)
class Check:
    """``met``: None where there is no value, or too few requests to tell.

    ``needed_requests``, ``needed_s``: about how many would tell; ``reason``: why none would. None where not known.
    """

    figure: Figure
    value: float | None
    bound: float
    met: bool | None
    needed_requests: int | None = None
    needed_s: float | None = None
    reason: str | None = None

    @property
    def allowed(self) -> str:
        """``p99 ≤ 20 ms``."""
        return f"{self.figure.word} {'≥' if self.figure.higher else '≤'} {self._quantity(self.bound, 'g')}"

    @property
    def failure(self) -> str:
        """``p99 is 31.2 ms, bound 20 ms``."""
        value = "unknown" if self.value is None else self._quantity(self.value, ".4g")
        return f"{self.figure.word} is {value}, bound {self._quantity(self.bound, 'g')}"

    @property
    def doubt(self) -> str:
        """``p99 is 19.2 ms, bound 20 ms: about 12,000 requests (120 s) would tell``; of one that is undecided."""
        if self.reason is not None:
            return f"{self.failure}: {self.reason}"
        if self.needed_requests is None or self.needed_s is None:
            return self.failure
        return f"{self.failure}: about {self.needed_requests:,d} requests ({self.needed_s:,.0f} s) would tell"

    @property
    def overshoot(self) -> float:
        """How many times the bound a value is on the wrong side of; 0 where it is kept, or not known."""
        if self.value is None or self.met:
            return 0.0
        over, under = (self.bound, self.value) if self.figure.higher else (self.value, self.bound)
        return over / under if under else math.inf

    def _quantity(self, value: float, form: str) -> str:
        if self.figure.in_percent:  # as the bound is written
            return format(value, form)
        unit = self.figure.shown_unit
        return format(self.figure.displayed(value), form) + (f" {unit}" if unit else "")


def objective_word(view: RunView) -> str | None:
    """``met``, ``missed`` or ``undecided``; None of a run without an objective."""
    if view.figure("slo") is None:
        return None
    # What a disturbed machine kept, a quiet one keeps; what it missed may be its own doing.
    missed = "undecided" if view.bounds_only else "missed"
    return {True: "met", False: missed, None: "undecided"}[view.figure("slo.met")]


def checks_of(view: RunView) -> list[Check]:
    """Those of the run's objective in its order; a figure that is not in the table (any more) keeps its name."""
    return [
        Check(
            FIGURES.get(name) or Figure(name, name, "", name, "lower", ""),
            check["value"],
            check["bound"],
            check["met"],
            check.get("needed_requests"),
            check.get("needed_s"),
            check.get("reason"),
        )
        for name, check in (view.figure("slo.checks") or {}).items()
    ]


def latency_bounds(views: Sequence[RunView]) -> dict[str, float]:
    """The bounds on percentiles of the latency that all measured runs share: percentile ("p99") -> ms."""
    bounds = [
        {c.figure.word: c.bound for c in checks_of(view) if c.figure.path.startswith(LATENCY)}
        for view in views
        if view.measured
    ]
    return bounds[0] if bounds and all(b == bounds[0] for b in bounds) else {}
