"""What the leaderboard's picture leaves in of the configurations: a bound on a figure, and colours that are not hidden.

It judges the newest run of a configuration, as the picture does; as conditions of a query it would let an older run in
where the newest breaks the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.scatter import colour_text
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.held import Held, Row


@dataclass(frozen=True)
class Selection:
    """``bound``: what a run's figure has to keep; ``hidden``: values of the field ``colour``, as ``colour_text`` has
    them, whose runs are left out. Empty: everything is left in.
    """

    bound: Bound | None = None
    colour: str = "backend"
    hidden: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.bound is not None or bool(self.hidden)

    def keeps(self, index: Held) -> Callable[[Row], bool]:
        """Whether a row stays; one without the figure has no point to leave out, and goes where there is a bound.

        Raises InputError for a figure or a field that there is none of.
        """
        bound, hidden = self.bound, self.hidden
        value = index.values(FIGURES.named(bound.figure).field_path) if bound else None
        colour = index.values(fields.field(self.colour).path) if hidden else None

        def kept(row: Row) -> bool:
            if bound is not None and value is not None:
                of = value(row)
                if of is None or (of > bound.value if bound.at_most else of < bound.value):
                    return False
            return colour is None or colour_text(colour(row)) not in hidden

        return kept
