"""Which of the configurations that are shown have a figure of a rate that moved, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferbench_tasks.analysis import steadiness
from inferbench_tasks.analysis.recommend.candidates import Candidate
from inferbench_tasks.figures import FIGURES


def why_moved(candidate: Candidate, figure: str) -> str | None:
    """Why that figure of a configuration is of a rate that moved, and its error; None where no run of it says so."""
    row = FIGURES.named(figure)
    whys = [why for document in candidate.documents if (why := steadiness.unsteady(row, document))]
    if not whys:
        return None
    error = max(map(steadiness.change_ratio, candidate.documents))
    return f"of a rate that moved ({whys[0]}), and is judged with an error of {error:.0%}"


def moved_notes(
    candidates: Sequence[Candidate], names: Mapping[str, str], figures: Sequence[str]
) -> list[str]:
    """``names``: what the candidates are called, by their keys."""
    return [
        f"The {FIGURES.named(figure).name} of {names[candidate.key]} is {why}."
        for candidate in candidates
        for figure in dict.fromkeys(figures)
        if (why := why_moved(candidate, figure))
    ]
