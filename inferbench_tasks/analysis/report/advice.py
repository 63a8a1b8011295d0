"""What a report advises: the run whose configuration to use, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


@dataclass(frozen=True)
class Advice:
    """``best``: the run to use, None where the data can't tell. ``sentences`` say why.

    ``by``: the figure that decided, None where none had to; ``among``: the runs that it decided between.
    """

    best: RunView | None
    sentences: tuple[str, ...]
    by: str | None = None
    among: tuple[RunView, ...] = ()
    #: Those of the sentences that make the choice doubtful.
    doubts: tuple[str, ...] = ()
    #: In how many runs the objective is neither met nor missed, where the first of the sentences does not say it.
    undecided: str = ""

    @property
    def text(self) -> str:
        """All sentences in one line of text."""
        return " ".join(self.sentences)
