"""What nights watch of a kind of submission: its figures, and the parts that a change of them is explained by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.figure import Figure


@dataclass(frozen=True)
class Watched:
    """``collection``: of the kind's results. ``figures``: each is a series, its ``path`` below a result's summary; a
    night has as many pairs as the first of them needs. ``parts``: what a run's time is made of; of these ``work`` are
    those that the others follow from. ``means``: a plain result -> part -> mean ms.

    ``told``: the column of a run's row that is said while a night runs, and how. ``compare_page``: where the UI sets
    two runs of the kind beside each other.
    """

    collection: str
    figures: tuple[Figure, ...]
    parts: tuple[str, ...]
    work: tuple[str, ...]
    means: Callable[[Mapping[str, Any]], dict[str, float]]
    told: tuple[str, str]
    compare_page: str
