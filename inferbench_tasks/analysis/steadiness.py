"""Whether a run's rate was steady, as its certificate tells: else its mean over the window is no level of the server.

What was served in the window was served, so the mean stands; it is told that it moved, and judged with an error as
large as what it moved by. Whatever is made of the rate (a cost, an energy of a request) moves with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure

#: Where it stands in a result.
_WORDS, _CHANGE = "certificate.figures.steady_state", "certificate.figures.throughput_change_ratio"
PATHS = (_WORDS, _CHANGE)
#: What a throughput that was not steady is known to, where its result does not say by how much it moved.
UNKNOWN_RATIO = 0.25
_OF_THE_RATE = ("not steady: the throughput", "not steady: steady only", "steady only")
MARK = "not steady"


def of_the_rate(figure: Figure) -> bool:
    """Whether a figure is a rate of answers, or is made of one."""
    counted = figure.counted or (figure.unit.endswith("/s") and not figure.interval)
    return bool(counted or figure.price_based or figure.energy_based)


def unsteady(figure: Figure, result: Mapping[str, Any]) -> str | None:
    """Why a figure of a run, a plain mapping, is of a rate that moved, in words; None where nothing says so."""
    if not of_the_rate(figure) or not change_ratio(result):
        return None
    return str(value_at(result, _WORDS) or MARK)


def change_ratio(result: Mapping[str, Any]) -> float:
    """How far the throughput moved over the load, as a share of its level; 0 where it was steady, or nobody looked."""
    change = value_at(result, _CHANGE)
    if change is not None:
        return abs(float(change))
    words = str(value_at(result, _WORDS) or "")
    return UNKNOWN_RATIO if words.startswith(_OF_THE_RATE) else 0.0
