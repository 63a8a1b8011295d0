"""How a chart's point is drawn whose rate was not steady: another symbol, with its reason in the hover text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import text
from inferbench_tasks.analysis.report.columns import unsteady
from inferbench_tasks.analysis.steadiness import MARK

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView
    from inferbench_tasks.figure import Figure

_SYMBOL, _STEADY = "diamond", "circle"


def symbol(figure: Figure, view: RunView, *, filled: bool = True) -> str:
    """A circle; of a rate that moved a diamond."""
    shape = _SYMBOL if unsteady(figure, view) else _STEADY
    return shape if filled else f"{shape}-open"


def named(figure: Figure, view: RunView) -> str:
    """The run in the legend."""
    return name(view) + (f" ({MARK})" if unsteady(figure, view) else "")


def hover(figure: Figure, view: RunView) -> str:
    """What stands behind the point's figures in the hover text; "" where the rate was steady."""
    why = unsteady(figure, view)
    return f"; {text(why)}" if why else ""


def legend(figure: Figure, views: Iterable[RunView]) -> list[dict[str, Any]]:
    """An entry that says what the symbol means, where any of these runs has it."""
    if not any(unsteady(figure, view) for view in views):
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"diamond: {MARK}, its {figure.word} is a mean; nor is the line beside it",
            "x": [None],
            "y": [None],
            "marker": {"symbol": f"{_SYMBOL}-open", "size": 9, "color": "#7F7F7F"},
        }
    ]
