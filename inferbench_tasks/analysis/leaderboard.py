"""The leaderboard: valid results by any metric, within one task and data set, with ties and intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: Figures that are better when larger; all others when smaller.
HIGHER_IS_BETTER = frozenset({"throughput_rps", "goodput_rps", "accuracy"})
SHOWN = ("model", "format", "backend", "device_name", "batch", "rate_rps", "network")
#: Differences below this share are a tie where there is no interval: a machine's drift between two runs.
_SAME_RATIO = 0.05
#: So many of the best are read from PerfDB, in its own order, before they are grouped.
_READ = 5000


def leaderboard(
    db: PerfDB, metric: str, query: str | Iterable[str] = "", limit: int = 20
) -> list[dict[str, Any]]:
    """The best valid results by a figure, best first in each group of task and data set.

    Each row: ``rank`` (equal for ties), ``task``, ``dataset``, the figure, ``ci95`` (its interval, None
    where there is none), and what was run. A configuration that was run several times stands there once,
    with its newest result. Raises InputError for a field that is no figure.
    """
    found = fields.field(metric)
    if not found.path.startswith("summary."):
        figures = ", ".join(f.name for f in fields.FIELDS if f.path.startswith("summary."))
        raise InputError(f"--by {metric}: not a figure of a run; allowed: {figures}")
    higher = found.name in HIGHER_IS_BETTER
    where = {"$and": [parse(query).filter, {"verdict": "valid"}, {found.path: {"$ne": None}}]}
    paths = [fields.field(name).path for name in ("run", "created", *SHOWN)]
    extra = ["model.task", "model.dataset", "submission.digest", "summary.e2e_latency_ms.ci95", found.path]
    documents = [
        to_plain(d)
        for d in db.find_raw(
            where, [(found.path, -1 if higher else 1), *NEWEST_FIRST], _READ, fields=[*paths, *extra]
        )
    ]
    return _ranked(_newest(documents), found, higher, limit)


def _newest(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One result per configuration on a device: the newest, so that a lucky run of many does not win."""
    latest: dict[Any, dict[str, Any]] = {}
    for document in documents:
        digest = (document.get("submission") or {}).get("digest")
        key = (digest, (document.get("device") or {}).get("name")) if digest else document["run_id"]
        if key not in latest or document["created_at"] > latest[key]["created_at"]:
            latest[key] = document
    chosen = {id(document) for document in latest.values()}
    return [document for document in documents if id(document) in chosen]


def _ranked(
    documents: list[dict[str, Any]], figure: fields.Field, higher: bool, limit: int
) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for document in documents:
        model = document.get("model") or {}
        groups.setdefault((model.get("task") or "", model.get("dataset") or ""), []).append(document)
    rows = []
    for (task, dataset), members in sorted(groups.items()):
        rank, leader = 0, None
        for position, document in enumerate(members[:limit], start=1):
            value, interval = figure.value(document), _interval(document, figure)
            if leader is None or _apart(leader, (value, interval)):
                rank, leader = position, (value, interval)
            shown = {name: fields.field(name).value(document) for name in SHOWN}
            rows.append(
                {
                    "rank": rank,
                    "task": task or None,
                    "dataset": dataset or None,
                    figure.name: value,
                    "ci95": interval,
                    **shown,
                    "run": document["run_id"],
                }
            )
    return rows


def _interval(document: dict[str, Any], figure: fields.Field) -> list[float] | None:
    """The 95% interval that a latency has; other figures have none in one run."""
    if not figure.path.startswith("summary.e2e_latency_ms."):
        return None
    intervals = document["summary"]["e2e_latency_ms"].get("ci95") or {}
    bounds = intervals.get(figure.path.rpartition(".")[2])
    return list(bounds) if bounds else None


def _apart(leader: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether two values differ beyond noise: more than a machine's drift, and intervals that do not touch."""
    (a, interval_a), (b, interval_b) = leader, other
    if abs(a - b) <= _SAME_RATIO * max(abs(a), abs(b)):
        return False
    if interval_a and interval_b:
        return bool(interval_a[1] < interval_b[0] or interval_b[1] < interval_a[0])
    return True
