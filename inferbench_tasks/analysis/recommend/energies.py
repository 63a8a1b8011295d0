"""Between energies that were got in two ways nobody chooses: which of them count, and what is said of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.errors import InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

Document = dict[str, Any]


def require_one_way(
    figures: Iterable[Figure], paths: Sequence[str], of_each: Iterable[tuple[Any, ...] | None]
) -> None:
    """InputError where results that are to be chosen among have these figures' energies in several ways: what picks
    one. ``of_each``: of each result what ``energy_ground.known`` makes of its values at ``paths``.
    """
    several = {way for way in of_each if way is not None}
    if len(several) < 2:
        return
    lines = sorted(
        "  "
        + " ".join(f"{path}={value}" for path, value in zip(paths, way, strict=True) if value is not None)
        for way in several
    )
    names = ", ".join(figure.name for figure in figures if figure.energy_based)
    raise InputError(
        f"{names}: the energies of the results that match were got in {len(several)} ways, which measure different "
        "things: between them no figure chooses. Pick one by the query:\n" + "\n".join(lines)
    )


def got_alike(documents: Sequence[Document], figure: Figure) -> tuple[Sequence[Document], list[str]]:
    """Those whose energy was got as that of most was, with those that have none; and what is to be said of the rest."""
    got = [_way(document, figure) for document in documents]
    counts = Counter(filter(None, got))
    if len(counts) < 2:
        return documents, []
    most = min(counts, key=lambda way: (-counts[way], way))
    others = ", ".join(sorted({*counts} - {most}))
    kept = [document for document, way in zip(documents, got, strict=True) if way in ("", most)]
    return kept, [
        f"{len(documents) - len(kept)} result(s) whose {figure.word} was got in another way ({others}) than most "
        f"({most}) are left out: they measure different things, and by {figure.name} none of two such is better."
    ]


def bounds_notes(bounds: Sequence[Bound], candidates: Sequence[Candidate]) -> list[str]:
    """Of each bound that is an energy, where those of these candidates' runs were got in several ways."""
    notes = []
    for figure in map(FIGURES.named, dict.fromkeys(bound.figure for bound in bounds)):
        ways = {_way(document, figure) for candidate in candidates for document in candidate.documents}
        if len(several := sorted(ways - {""})) > 1:
            notes.append(
                f"{figure.word.capitalize()} was got in ways that differ here ({'; '.join(several)}) and measure "
                f"different things: a bound on {figure.name} means something else for each. Compare those of one."
            )
    return notes


def _way(document: Document, figure: Figure) -> str:
    """How an energy of a result was got; "" where it has none, and of other figures."""
    summary = document.get("summary") or {}
    return got_by(figure, summary) if figure.stored(summary) is not None else ""
