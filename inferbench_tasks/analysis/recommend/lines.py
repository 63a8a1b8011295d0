"""A leaderboard's lines: what a result says of a figure, and how those of one ground are ranked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from inferbench_tasks.analysis import model_names, steadiness
from inferbench_tasks.analysis.certainty import (
    LOWER_BOUND,
    Change,
    Estimate,
    of_one_run,
    of_result,
    why_equal,
)
from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.evaluations.listed import PART
from inferbench_tasks.analysis.goodness import OF_GOOD_ANSWERS, good_within
from inferbench_tasks.analysis.price_ground import priced_at
from inferbench_tasks.analysis.recommend.comparable import load_of_ranked
from inferbench_tasks.analysis.stated import stated
from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields, judged_on, no_model
from inferbench_tasks.perfdb.offered import offered

#: What is told of each run beside its figures.
SHOWN = ("model", "format", "backend", "device_name", "batch", "rate_rps", "network")


@dataclass(frozen=True, slots=True)
class Line:
    """One result by a figure, whatever stands above it: it follows from its document alone.

    ``ground``: task, data set and load, within which it is ranked. ``value`` is None where it has none after all.
    ``told`` and ``told_last``: the parts of its row before and after what depends on the others.
    """

    of: tuple[str, int]
    ground: tuple[str, str, str]
    value: float | None
    own: Estimate
    open_end: bool
    model: model_names.Named
    told: dict[str, Any]
    told_last: dict[str, Any]

    def row(self, rank: int, tie: str | None, model_apart: str) -> dict[str, Any]:
        """As people and REST get it."""
        return {
            "rank": rank,
            "tie": tie,
            **self.told,
            "model_apart": model_apart or None,
            **self.told_last,
        }


@lru_cache(maxsize=200)
def _paths(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Of fields of results."""
    return tuple((name, fields.field(name).path) for name in names)


def line_of(document: dict[str, Any], figure: Figure, beside: Sequence[str]) -> Line:
    """Of a result as plain nested mappings, with further figures ``beside``."""
    shown = [figure, *map(FIGURES.named, beside)]
    model, load = document.get("model") or {}, document.get("load") or {}
    text = load_of_ranked(figure)(offered(load), load.get("batch_size"))
    summary = document.get("summary") or {}
    if figure.name in OF_GOOD_ANSWERS:
        text = f"{text}, {good_within(summary)}"
    elif figure.energy_based:
        text = f"{text}, {got_by(figure, summary)}"
    elif figure.price_based and (date := priced_at(summary)):
        text = f"{text}, prices of {date}"
    data = judged_on.of_document(document) if figure.evaluated else model.get("dataset") or ""
    task = no_model.task_in_words(model.get("task"), no_model.of_document(document))
    value, interval = figure.stored(summary), figure.interval_in(summary)
    cells = {name: value_at(document, path) for name, path in _paths((*SHOWN, *beside))}
    if any(each.energy_based for each in shown):
        cells["energy_method"] = (summary.get("energy") or {}).get("method")
    return Line(
        (document["run_id"], document["attempt"]),
        (task, data, text),
        value,
        of_one_run(0.0) if value is None else of_result(figure, value, stated=stated(figure, document)),
        figure.unbounded_in(summary),
        model_names.of_document(document),
        {
            "task": task or None,
            "dataset": data or None,
            "load": text,
            figure.name: value,
            "ci95": list(interval) if interval else None,
            **cells,
        },
        {
            # Most are steady, whatever the figure.
            "not_steady": next(filter(None, (steadiness.unsteady(f, document) for f in shown)), None)
            if steadiness.change_ratio(document)
            else None,
            "part": value_at(document, PART),
            "run": document["run_id"],
        },
    )


#: Rank and tie, None of a line without a value.
Place = tuple[int, str | None] | None


def placed(
    lines: Iterable[Line], figure: Figure, known: dict[tuple[tuple[str, int], ...], list[Place]] | None = None
) -> list[dict[str, Any]]:
    """Rows of lines that are in their order, by ground. ``known``: the places of lines that were ranked before."""
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault(line.ground, []).append(line)
    told = model_names.apart(line.model for members in groups.values() for line in members)
    known = {} if known is None else known
    rows = []
    for _, members in sorted(groups.items()):
        key = tuple(line.of for line in members)
        if (of_each := known.get(key)) is None:
            of_each = known[key] = places(members, figure)
        rows += [
            line.row(*place, told[line.model])
            for line, place in zip(members, of_each, strict=True)
            if place is not None
        ]
    return rows


def places(lines: Sequence[Line], figure: Figure) -> list[Place]:
    """Rank and tie of each line of one ground, which are in their order; None of one without a value.

    Those that don't differ from the best of their rank share it, and their ``tie`` says why: noise, or that it is not
    known which is better (``certainty.why_equal``). None of the best itself. So does a search that ended before it met
    a rate that breaks: its server may be the best of all.
    """
    rank, leader, led_by_bound = 0, of_one_run(0.0), False
    found: list[Place] = []
    tie: str | None
    for position, line in enumerate(lines, start=1):
        if line.value is None:
            found.append(None)
            continue
        behind = not line.open_end and Change.between(leader, line.own).settled
        if not rank or behind:
            rank, leader, led_by_bound, tie = position, line.own, line.open_end, None
        else:
            tie = LOWER_BOUND if line.open_end or led_by_bound else why_equal(figure, leader, line.own)
        found.append((rank, tie))
    return found
