"""What the leaderboard's address says of its picture, and what of it the table's rows have to follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.selection import Selection
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.problems import FieldError, blame
from inferbench_tasks.provider.ui.colours import USUAL
from inferbench_tasks.provider.ui.filters import Text

#: Across the picture unless another figure is asked for.
ACROSS = "p99_ms"


@dataclass(frozen=True)
class State:
    """As it stands in the address: ``x`` with a ``bound`` on it, ``y``, ``colour`` and which are ``off`` (by "|")."""

    x: str = ""
    y: str = ""
    colour: str = ""
    bound: str = ""
    off: str = ""

    def selection(self) -> Selection:
        """What is left in; FieldError names what is wrong."""
        bound = None
        if text := self.bound.strip():
            with blame("x"):
                figure = FIGURES.ranking(self.x or ACROSS)
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise FieldError("bound", f"{text[:60]!r} is no number")
            bound = Bound(figure.name, not figure.higher, value)
        hidden = frozenset(part for part in self.off.split("|") if part)
        return Selection(bound, self.colour or USUAL, hidden)

    def as_dict(self) -> dict[str, str]:
        """For links to the same picture."""
        return dict(self.__dict__)


def _state(
    x: Text = "",
    y: Text = "",
    colour: Text = "",
    bound: Text = "",
    off: Annotated[str, Query(max_length=4000)] = "",
) -> State:
    return State(x, y, colour, bound, off)


Picture = Annotated[State, Depends(_state)]
