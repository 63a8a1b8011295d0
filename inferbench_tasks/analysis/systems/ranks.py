"""Ranks of the model x system table: within one model and what its figures can be compared in, ties share one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inferbench_tasks.analysis.certainty import Change, Estimate, why_equal
from inferbench_tasks.figure import Figure

Row = dict[str, Any]


def rank(
    rows: Sequence[Row],
    column: str,
    estimates: Sequence[Estimate | None],
    higher: bool,
    group: Callable[[Row], tuple[Any, ...]],
    figure: Figure | None = None,
) -> None:
    """Put ``rank_COLUMN`` into the rows: 1 is best in its group; what does not differ from the best of its rank shares
    it, and ``tie_COLUMN`` says why (``certainty.why_equal``; ``figure``: the column's). None where there is no figure,
    and where nothing else of the group has one: alone nothing is best.
    """
    groups: dict[tuple[Any, ...], list[tuple[Row, Estimate]]] = {}
    for row, estimate in zip(rows, estimates, strict=True):
        row[f"rank_{column}"] = row[f"tie_{column}"] = None
        if estimate is not None:
            groups.setdefault(group(row), []).append((row, estimate))
    for members in groups.values():
        if len(members) < 2:
            continue
        members.sort(key=lambda member: -member[1].mean if higher else member[1].mean)
        place, leader = 1, members[0][1]
        for position, (row, estimate) in enumerate(members, start=1):
            if position > 1 and Change.between(leader, estimate).settled:
                place, leader = position, estimate
            elif position > 1:
                row[f"tie_{column}"] = why_equal(figure, leader, estimate)
            row[f"rank_{column}"] = place
