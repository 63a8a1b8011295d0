"""The columns of a table of runs: the figures that any of them has, each with the word that a doubtful one needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis import steadiness
from inferbench_tasks.analysis.report.objective import objective_word
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

#: Whether the objective was kept stands behind this figure.
_SLO_AFTER = "goodput_rps"


@dataclass(frozen=True)
class Column:
    """``figure``: None for the column that says whether the objective was kept. ``doubt``: of all its figures."""

    title: str
    figure: Figure | None
    doubt: str = ""

    def cell(self, view: RunView) -> str:
        """What a run shows in it."""
        if self.figure is None:
            return objective_word(view) or "–"
        value = view.value(self.figure)
        sign = self.figure.bound_sign if view.bounds_only and value is not None else ""
        if self.figure.in_percent:
            return "–" if value is None else sign + (f"{value:.2%}" if value else "0")
        text = sign + number(None if value is None else self.figure.displayed(value))
        doubt = "" if value is None or self.doubt else doubt_of(view, self.figure)
        return f"{text} ({doubt})" if doubt else text


def columns_of(views: Sequence[RunView]) -> list[Column]:
    """Those in which any run has a figure; a column whose figures are all doubtful says so in its head."""
    columns = []
    for figure in FIGURES.on("report"):
        with_value = [view for view in views if view.value(figure) is not None]
        if with_value:
            doubts = {doubt_of(view, figure) for view in with_value}
            doubt = doubts.pop() if len(doubts) == 1 else ""
            columns.append(Column(f"{figure.column} ({doubt})" if doubt else figure.column, figure, doubt))
    if any(objective_word(view) for view in views):
        before = list(FIGURES)[: list(FIGURES).index(_SLO_AFTER) + 1]
        place = sum(column.figure is not None and column.figure.name in before for column in columns)
        columns.insert(place, Column("SLO", None))
    return columns


def doubt_of(view: RunView, figure: Figure) -> str:
    """The words without which a figure would look surer than it is: energy without a meter, or of more of a machine
    than the run had, a price nobody looked up, a rate that moved.
    """
    words = []
    if figure.price_based and view.figure("cost.unverified"):
        words.append("unverified")
    if figure.energy_based and str(view.figure("energy.method")).endswith("_estimate"):
        words.append("estimate")
    if figure.energy_based and of_a_part(view.figure("energy.machine") or {}):
        words.append("whole machine")
    if unsteady(figure, view):
        words.append(steadiness.MARK)
    return ", ".join(words)


def of_a_part(machine: Mapping[str, Any]) -> bool:
    """Whether an energy counts a machine of which the run had a part, by what is stored of it."""
    cores, of_cores = machine.get("cores"), machine.get("of_cores")
    return bool(cores and of_cores and cores < of_cores)


def unsteady(figure: Figure, view: RunView) -> str | None:
    """Why a figure of a run is of a rate that moved, in words; None where nothing says so."""
    return steadiness.unsteady(figure, {"certificate": view.result.certificate if view.result else {}})


def unsteady_notes(views: Sequence[RunView]) -> list[str]:
    """For beneath a table of runs: whose rates moved, and how."""
    throughput = FIGURES["throughput_rps"]
    return [
        f"{steadiness.MARK.capitalize()} ({view.label}): {why}; its throughput is what was served in the window on "
        "average, and cost and energy follow from it."
        for view in views
        if (why := unsteady(throughput, view))
    ]
