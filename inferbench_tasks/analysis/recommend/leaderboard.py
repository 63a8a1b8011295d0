"""The leaderboard: valid results by any metric, within one task and data set, with ties and intervals."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.held import Held, Row, configuration, held, identity
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

SHOWN = ("model", "format", "backend", "device_name", "batch", "rate_rps", "network")
#: Differences below this share are a tie where there is no interval: a machine's drift between two runs.
_SAME_RATIO = 0.05


def leaderboard(
    db: PerfDB,
    metric: str,
    query: str | Iterable[str] = "",
    limit: int = 20,
    beside: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The best valid results by a figure, best first in each group of task and data set.

    Each row: ``rank`` (equal for ties), ``task``, ``dataset``, the figure, ``ci95`` (its interval, None
    where there is none), what was run, and the figures ``beside`` it. A configuration that was run several times
    stands there once, with its newest result that has the figure. Of equal figures the newest is first.
    Raises InputError for a field that is no figure.
    """
    figure = FIGURES.ranking(metric)
    best = _best(held(db), figure, parse(query).filter, limit)
    return _ranked(_documents(db, best, figure, beside), figure, beside)


def _best(known: Held, figure: Figure, filter: Any, limit: int) -> list[Row]:
    """The best of each group, best first."""
    value, task, dataset = (known.values(path) for path in (figure.field_path, "model.task", "model.dataset"))
    # One result per configuration on a device: the newest, so that a lucky run of many does not win.
    newest: dict[str, Row] = {}
    for row in known.rows(filter):
        if value(row) is not None:
            newest.setdefault(configuration(row), row)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in newest.values():
        groups.setdefault((task(row) or "", dataset(row) or ""), []).append(row)
    sign = -1 if figure.higher else 1
    return [row for _, members in sorted(groups.items())
            for row in heapq.nsmallest(limit, members, key=lambda row: sign * value(row))]  # fmt: skip


def _documents(db: PerfDB, rows: list[Row], figure: Figure, beside: Sequence[str]) -> list[dict[str, Any]]:
    """What is shown of these results, in their order."""
    paths = [fields.field(name).path for name in ("run", "attempt", *SHOWN, *beside)]
    paths += ["model.task", "model.dataset", *([f"summary.{figure.interval}"] if figure.interval else [])]
    paths += ["summary.energy.method", "summary.energy.uncertainty_ratio"]
    paths = list(dict.fromkeys([*paths, figure.field_path]))
    where = {"run_id": {"$in": [identity(row)[0] for row in rows]}}
    found = {(d["run_id"], d["attempt"]): to_plain(d) for d in db.find_raw(where, BY_RUN, fields=paths)}
    return [found[identity(row)] for row in rows if identity(row) in found]


def _ranked(documents: list[dict[str, Any]], figure: Figure, beside: Sequence[str]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for document in documents:
        model = document.get("model") or {}
        groups.setdefault((model.get("task") or "", model.get("dataset") or ""), []).append(document)
    rows = []
    for (task, dataset), members in sorted(groups.items()):
        rank, leader = 0, None
        for position, document in enumerate(members, start=1):
            summary = document.get("summary") or {}
            value, interval = figure.stored(summary), figure.interval_in(summary)
            range_of = (value, interval or _uncertainty(document, figure))
            if leader is None or _apart(leader, range_of):
                rank, leader = position, range_of
            shown = {name: fields.field(name).value(document) for name in (*SHOWN, *beside)}
            if any(FIGURES.named(name).energy_based for name in (figure.name, *beside)):
                shown["energy_method"] = _energy(document).get("method")
            rows.append(
                {
                    "rank": rank,
                    "task": task or None,
                    "dataset": dataset or None,
                    figure.name: value,
                    "ci95": list(interval) if interval else None,
                    **shown,
                    "run": document["run_id"],
                }
            )
    return rows


def _uncertainty(document: dict[str, Any], figure: Figure) -> list[float] | None:
    """What an energy, or the CO2 that follows from it, may really be, by the uncertainty of its method."""
    ratio = _energy(document).get("uncertainty_ratio")
    value = figure.stored(document.get("summary") or {})
    if not figure.energy_based or ratio is None or value is None:
        return None
    return [value * (1 - ratio), value * (1 + ratio)]


def _energy(document: dict[str, Any]) -> dict[str, Any]:
    return (document.get("summary") or {}).get("energy") or {}


def _apart(leader: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether two values differ beyond noise: more than a machine's drift, and intervals that do not touch."""
    (a, interval_a), (b, interval_b) = leader, other
    if abs(a - b) <= _SAME_RATIO * max(abs(a), abs(b)):
        return False
    if interval_a and interval_b:
        return bool(interval_a[1] < interval_b[0] or interval_b[1] < interval_a[0])
    return True
