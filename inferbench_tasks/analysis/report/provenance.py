"""What made the results: model, backend, machine, versions; what is the same for all runs is said once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.dotted import flatten


def provenance_tables(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """Tables {title, rows}: what all runs share, then per run what differs."""
    known = [view for view in views if view.result]
    return tables_of([view.label for view in known], [_facts(view) for view in known])


def tables_of(labels: Sequence[str], facts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tables {title, rows} of runs by these labels, of the facts of each by dotted path."""
    if not facts:
        return []
    paths = list(dict.fromkeys(path for fact in facts for path in fact))
    shared = [
        (p, facts[0][p]) for p in paths if p in facts[0] and all(f.get(p) == facts[0][p] for f in facts)
    ]
    same = {path for path, _ in shared}
    tables = [
        {
            "title": "The same for all runs" if len(facts) > 1 else "The run",
            "rows": [_cells(p, v) for p, v in shared if v is not None],
        }
    ]
    for label, fact in zip(labels, facts, strict=True):
        rows = [_cells(p, v) for p, v in fact.items() if p not in same and v is not None]
        if len(facts) > 1 and rows:
            tables.append({"title": label, "rows": rows})
    return tables


def beside(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """Tables {title, head, rows}: what differs, a column for each run, and what is the same for all."""
    known = [view for view in views if view.result]
    facts = [_facts(view) for view in known]
    if len(facts) < 2:
        return [{"title": "The run", "head": None, "rows": of["rows"]} for of in provenance_tables(views)]
    same, differing = [], []
    for path in dict.fromkeys(path for fact in facts for path in fact):
        values = [fact.get(path) for fact in facts]
        if all(value == values[0] for value in values):
            same += [_cells(path, values[0])] if values[0] is not None else []
        else:
            differing.append([path, *(_cells(path, value)[1] for value in values)])
    tables = []
    if differing:
        head = ["", *(view.label for view in known)]
        tables.append({"title": "What differs between the runs", "head": head, "rows": differing})
    return [*tables, {"title": "What is the same for all runs", "head": None, "rows": same}]


def _facts(view: RunView) -> dict[str, Any]:
    assert view.result is not None
    result = view.result.model_dump()
    facts: dict[str, Any] = {
        "run": view.run_id,
        "attempt": result["attempt"],
        "model": result["model"],
        "format": result["format"],
        "backend": result["backend"],
        "device": result["device"],
        "environment": result["environment"],
        "load's host": _of_client(result["extensions"].get("client_host")),
        "replicas' hosts": _of_replicas(result["extensions"].get("replicas")),
        "versions": result["provenance"].get("versions"),
        "inferbench commit": result["provenance"].get("git_sha"),
        "uncommitted changes": result["provenance"].get("git_dirty"),
        "seeds": result["provenance"].get("seeds"),
        "lock": result["extensions"].get("lock"),
        "samples sha256": (result["samples"] or {}).get("sha256"),
        "monitors": {
            "unavailable": view.figure("resources.monitor.unavailable"),
            "CPU of the sampler, cores": view.figure("resources.monitor.cpu_cores"),
        },
    }
    return flatten(facts)


def _of_client(host: dict[str, Any] | None) -> dict[str, Any] | None:
    """What another host is that the load came from; its link and clocks are figures, with a section of their own."""
    if not host:
        return None
    of = {name: host.get(name) for name in ("host", "hardware", "system")}
    return of | {name: _of_client(host[name]) for name in ORDINALS if host.get(name)}


def _of_replicas(replicas: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the hosts of further replicas are, by their numbers; None of one host."""
    hosts = (replicas or {}).get("hosts") or ()
    of = {
        str(host["number"]): {name: host.get(name) for name in ("host", "hardware", "system")}
        for host in hosts
    }
    return of or None


def _cells(path: str, value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [path, ", ".join(str(item) for item in value)]
    return [path, number(value)]
