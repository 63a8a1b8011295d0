"""Which of the configurations that are shown have a figure of a rate that moved, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferbench_tasks.analysis import steadiness
from inferbench_tasks.analysis.recommend.candidates import Candidate
from inferbench_tasks.figures import FIGURES

#: So many runs are named.
_NAMED = 3


def why_moved(candidate: Candidate, figure: str) -> str | None:
    """Why that figure of a configuration is of a rate that moved, in how many of its runs, and with which error these
    are judged; None where no run of it says so.
    """
    row = FIGURES.named(figure)
    documents = candidate.documents
    errors = [steadiness.change_ratio(d) if steadiness.unsteady(row, d) else 0.0 for d in documents]
    moved = [(d, error) for d, error in zip(documents, errors, strict=True) if error]
    if not moved:
        return None
    least, most = (f"{end(error for _, error in moved):.0%}" for end in (min, max))
    error = f"an error of {most}" if least == most else f"errors of {least} to {most}"
    if len(documents) == 1:
        return f"of a rate that moved ({steadiness.unsteady(row, documents[0])}), and is judged with {error}"
    whys = [f"{d['run_id']}: {steadiness.unsteady(row, d)}" for d, _ in moved]
    told = "; ".join(whys[:_NAMED]) + (f"; and {len(whys) - _NAMED} more" if len(whys) > _NAMED else "")
    values = [row.value(d.get("summary") or {}) or 0.0 for d in documents]
    together = sum(e * v for e, v in zip(errors, values, strict=True)) / (sum(values) or 1.0)
    return (
        f"{steadiness.MARK} in {len(moved)} of {len(documents)} runs ({told}): "
        f"{'that run is' if len(moved) == 1 else 'those runs are'} judged with {error}, the mean of all with "
        f"{together:.0%}"
    )


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
