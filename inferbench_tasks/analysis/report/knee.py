"""Runs that differ in their rate only, as one curve each, and where it breaks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inferbench_tasks.analysis.report.loads import configuration

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


#: The rate's part of a run's label, and the comma beside it.
_RATE = re.compile(r"(?:[\w.]*\.)?\brate_rps [^,]+(?:, )?")


@dataclass(frozen=True)
class Curve:
    """One configuration under several rates, the lowest first. ``label``: without the rate; "" of the only one."""

    label: str
    views: tuple[RunView, ...]


def rate_of(view: RunView) -> float | None:
    """The rate that its load was to have; None of a closed loop, a trace or a burst."""
    rate = ((view.job.get("load") or {}).get("arrivals") or {}).get("rate_rps")
    return float(rate) if isinstance(rate, (int, float)) else None


def curves(views: Sequence[RunView]) -> list[Curve]:
    """The configurations that were measured at two rates at least, each named by its first run, without the rate."""
    groups: dict[str, list[RunView]] = {}
    for view in views:
        if rate_of(view) is not None:
            groups.setdefault(configuration(view), []).append(view)
    return [
        Curve(
            _RATE.sub("", group[0].label).removesuffix(", "),
            tuple(sorted(group, key=lambda view: rate_of(view) or 0.0)),
        )
        for group in groups.values()
        if len({rate_of(view) for view in group}) > 1
    ]


@dataclass(frozen=True)
class Knee:
    """``rate_rps``: the highest measured rate that kept the objective as all lower ones did; the next one broke it."""

    rate_rps: float

    @classmethod
    def of(cls, curve: Curve) -> Knee | None:
        """None where no measured rate broke it, not even the lowest kept it, or a run between can't tell."""
        kept: float | None = None
        rates = sorted({rate_of(view) or 0.0 for view in curve.views})
        for rate in rates:
            words = [keeps(view) for view in curve.views if rate_of(view) == rate]
            if False in words:
                return None if kept is None else cls(kept)
            if None in words:
                return None
            kept = rate
        return None


def keeps(view: RunView) -> bool | None:
    """Whether enough requests were good, by the decision of the run's own verdict on its objective, so that chance
    decides nothing; a backlog that grew says that they would not be. None: nobody can tell, or it is undecided.

    A disturbed run's ratio is a lower bound: it may show that the objective was kept, never that it was broken. Of
    other runs that are not valid nothing is known.
    """
    least = (view.job.get("slo") or {}).get("min_good_ratio")
    certificate = (view.result.certificate if view.result else None) or {}
    if least is None or not view.figure("tokens.each"):
        return None
    kept: bool | None = view.figure("tokens.good_decision.met")
    if kept is None and view.valid and (certificate.get("figures") or {}).get("growing_backlog"):
        return False
    if view.figure("tokens.good_ratio") is None:
        return None
    return kept if view.valid or (kept and view.bounds_only) else None
