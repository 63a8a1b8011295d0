"""What the leaderboard's picture leaves in of the configurations: a bound on a figure, and colours that are not hidden.

It judges the run that the picture draws, also where the table shows another one of the configuration; as conditions of
a query it would let an older run in where the newest breaks the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.comparable import newest_of
from inferbench_tasks.analysis.recommend.parts import configurations
from inferbench_tasks.analysis.recommend.scatter import colour_text
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.held import Held, Row
from inferbench_tasks.perfdb.held_columns import Matching
from inferbench_tasks.perfdb.store import PerfDB


@dataclass(frozen=True)
class Selection:
    """``bound``: what the figure ``x`` has to keep; ``hidden``: values of the field ``colour``, as ``colour_text`` has
    them, whose runs are left out. ``x`` and ``y``: the picture's figures. Without bound and hidden colours everything
    is left in.
    """

    x: str = ""
    y: str = ""
    bound: Bound | None = None
    colour: str = "backend"
    hidden: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.bound is not None or bool(self.hidden)

    def keeps(self, db: PerfDB, index: Held, rows: Matching) -> Callable[[Row], bool]:
        """Whether the configuration of a row stays; ``rows``: all that match.

        One that has no point because no run has both figures is judged by its newest run with ``x``; without such a run
        it goes where there is a bound. Raises InputError for a figure or a field that there is none of.
        """
        bound, hidden = self.bound, self.hidden
        x, y = FIGURES.ranking(self.x), FIGURES.ranking(self.y)
        value = index.values(x.field_path)
        colour = index.values(fields.field(self.colour).path) if hidden else None
        by_figures = [
            (configurations(db, index, rows, figures), newest_of(db, index, rows, figures))
            for figures in ((x, y), (x,))
        ]

        def kept(row: Row) -> bool:
            run = next((found for key, newest in by_figures if (found := newest.get(key(row)))), None)
            if bound is not None:
                of = None if run is None else value(run)
                if of is None or (of > bound.value if bound.at_most else of < bound.value):
                    return False
            return colour is None or colour_text(colour(row if run is None else run)) not in hidden

        return kept
