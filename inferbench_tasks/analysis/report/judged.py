"""The runs of a report before the judge that the recommender asks too, so that the two can't disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferbench_tasks.analysis.certainty import SETTLED
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.report.objective import checks_of
from inferbench_tasks.analysis.stated import part_of
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from inferbench_tasks.analysis.certainty import Estimate
    from inferbench_tasks.analysis.report.runs import RunView


class JudgedRuns:
    """``views``: all valid runs; each is a configuration of its own."""

    def __init__(self, views: Sequence[RunView]) -> None:
        self._candidates = {view.run_id: _candidate(view) for view in views}
        self._judge = Judge([*self._candidates.values()])

    def estimate(self, view: RunView, figure: str) -> Estimate:
        """A figure of a run with its spread."""
        return self._judge.estimate(self._candidates[view.run_id], figure)

    def differ(self, a: RunView, b: RunView, figure: str, surely: float = SETTLED) -> bool:
        """Whether two runs do, beyond noise, with that probability."""
        return self._judge.differ(self._candidates[a.run_id], self._candidates[b.run_id], figure, surely)

    def keeps(self, view: RunView) -> float | None:
        """The probability that a run that kept its objective really keeps it, at least; None without one."""
        checks = [check for check in checks_of(view) if check.figure.name in FIGURES]
        bounds = [Bound(check.figure.name, not check.figure.higher, check.bound) for check in checks]
        return self._judge.keeps(self._candidates[view.run_id], bounds)


def _candidate(view: RunView) -> Candidate:
    figures = {name: [view.value(figure)] for name, figure in FIGURES.items()}
    document = part_of(view.result) if view.result else {}
    return Candidate(view.run_id, [document | {"summary": view.summary}], figures)
