"""What the leaderboard's address says of its picture, and what of it the table's rows have to follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.selection import Selection
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.problems import FieldError, blame
from inferbench_tasks.provider.ui.colours import USUAL
from inferbench_tasks.provider.ui.filters import Text

#: Across the picture and up unless other figures are asked for.
ACROSS, UP = "p99_ms", "throughput_samples_per_s"


@dataclass(frozen=True)
class State:
    """As it stands in the address: ``x`` with a ``bound`` on it, ``y``, ``colour`` and which of these are ``off``."""

    x: str = ""
    y: str = ""
    colour: str = ""
    bound: str = ""
    off: tuple[str, ...] = ()

    @property
    def selects(self) -> bool:
        """Whether it may leave something out."""
        return bool(self.bound.strip() or self.off)

    def selection(self) -> Selection:
        """What is left in; FieldError names what is wrong."""
        if not self.selects:
            return Selection()
        bound = None
        with blame("x"):
            across = FIGURES.ranking(self.x or ACROSS)
        with blame("y"):
            up = FIGURES.ranking(self.y or UP)
        if text := self.bound.strip():
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise FieldError("bound", f"{text[:60]!r} is no number")
            bound = Bound(across.name, not across.higher, value)
        return Selection(across.name, up.name, bound, self.colour or USUAL, frozenset(self.off))

    def as_dict(self) -> dict[str, Any]:
        """For links to the same picture."""
        return {**self.__dict__, "off": list(self.off)}


def _state(
    x: Text = "",
    y: Text = "",
    colour: Text = "",
    bound: Text = "",
    off: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
) -> State:
    return State(x, y, colour, bound, tuple(off))


Picture = Annotated[State, Depends(_state)]
