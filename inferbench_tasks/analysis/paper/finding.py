"""What a comparison with one sentence of the paper comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inferbench_tasks.analysis.energy_ground import ways
from inferbench_tasks.analysis.lacking import lack_of
from inferbench_tasks.analysis.report.columns import unsteady
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

#: ``undecided``: the runs show no difference beyond noise. ``unmeasured``: a run that it needs is missing or not valid,
#: or needs a device that is not here.
Kind = Literal["agrees", "differs", "undecided", "unmeasured"]
Way = Literal["higher", "lower"]
#: How sure a difference has to be. A page of some thirty sentences, each with one of ten wrong (``certainty.SETTLED``),
#: would have three wrong ones.
SURELY = 0.99
#: Of figures that no judge knows the noise of: a smaller difference between two single runs, as a share of the larger,
#: decides nothing. It is what ``SURELY`` asks of single runs on a quiet machine: ratios beyond
#: exp(t(0.99, 6) x sqrt(2) x 0.05) = exp(0.222).
SURE_RATIO = 0.20


@dataclass(frozen=True)
class Finding:
    """``text``: with the figures that it rests on."""

    kind: Kind
    text: str


class Runs:
    """The runs of one submission, by their places in its sweep."""

    def __init__(self, views: Sequence[RunView]) -> None:
        self.views = list(views)
        valid = [view for view in views if view.valid]
        self._valid = {view.run_id for view in valid}
        self._judge = JudgedRuns(valid) if valid else None

    def at(self, **place: Any) -> RunView | None:
        """The valid run whose job has these values (``__`` for a dot); None where there is none."""
        wanted = {path.replace("__", "."): value for path, value in place.items()}
        for view in self.views:
            if view.run_id in self._valid and all(_same(value_at(view.job, p), v) for p, v in wanted.items()):
                return view
        return None

    def compare(self, first: RunView | None, second: RunView | None, figure: str, way: Way) -> Finding:
        """Whether the second run's figure is higher, or lower, than the first's, beyond noise."""
        if first is None or second is None or self._judge is None:
            return Finding("unmeasured", "a run that this needs is missing, or not valid")
        row = FIGURES.named(figure)
        a, b = row.value(first.summary), row.value(second.summary)
        if a is None or b is None:
            return Finding("unmeasured", _lacking(row, [(first, a), (second, b)]))
        unit = row.display_unit or row.unit
        moved = (f"; {view.label}: {why}" for view in (first, second) if (why := unsteady(row, view)))
        text = (
            f"{row.word} {_shown(a * row.display_factor)}{'' if unit == '%' else ' '}{unit} ({first.label}), "
            f"{_shown(b * row.display_factor)} ({second.label}){''.join(moved)}"
        )
        if len(of := ways(row, (first.summary, second.summary))) > 1:
            return Finding("undecided", f"{text}: {' and '.join(of)} measure different things")
        if not self._judge.differ(first, second, row.name, SURELY):
            return Finding("undecided", f"{text}: no difference beyond noise")
        return Finding("agrees" if (b > a) == (way == "higher") else "differs", text)


def _lacking(row: Figure, of: Sequence[tuple[RunView, float | None]]) -> str:
    """Which of the runs lacks the figure, and why where its certificate says so."""
    texts = []
    for view, value in of:
        if value is None:
            why = lack_of(row, view.summary)
            texts.append(f"{view.label} has no {row.word}" + (f" ({why})" if why else ""))
    return "; ".join(texts)


def both(*findings: Finding) -> Finding:
    """One for several: it agrees where all do; else the worst of them says what it comes to."""
    order: tuple[Kind, ...] = ("differs", "unmeasured", "undecided", "agrees")
    kinds = {finding.kind for finding in findings}
    kind = next(kind for kind in order if kind in kinds)
    return Finding(kind, "; ".join(dict.fromkeys(finding.text for finding in findings)))


def shares(first: float | None, second: float | None, way: Way, text: str) -> Finding:
    """Of two numbers that have no intervals: a difference below ``SURE_RATIO`` of the larger decides nothing."""
    if first is None or second is None:
        return Finding("unmeasured", "a run that this needs is missing, or not valid")
    said = text.format(_shown(first), _shown(second))
    if abs(second - first) < SURE_RATIO * max(abs(first), abs(second)):
        return Finding("undecided", f"{said}: less than {SURE_RATIO:.0%} apart")
    return Finding("agrees" if (second > first) == (way == "higher") else "differs", said)


def _same(value: Any, wanted: Any) -> bool:
    return bool(value == wanted)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
