"""Runs whose server stood on several devices: which replica answered how much, and what stood before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.dotted import value_at

_NOTE = (
    "Samples: as each replica counted them, over the whole load. CPU and memory: in the measured window; the server's "
    "figures elsewhere are their sums. What stands before them is no part of these."
)


def replicated(views: Sequence[RunView]) -> list[tuple[RunView, dict[str, Any], dict[str, Any]]]:
    """The runs with several replicas: what ``stages.replica_figures`` stored of their servers, and of each device."""
    known = []
    for view in views:
        if view.result is None or (servers := view.result.extensions.get("replicas")) is None:
            continue
        known.append((view, servers, value_at(view.result.summary.model_dump(), "per_device") or {}))
    return known


def words(views: Sequence[RunView]) -> str:
    """What all answered for each device, how even it was, and whose cores the balancer had; a sentence for each run."""
    sentences = []
    for view, servers, each in replicated(views):
        balancer = servers.get("balancer") or {}
        rate, share = each.get("throughput_samples_per_s"), each.get("share_ratio")
        said = (
            [f"{number(rate)} samples/s for each of {each.get('devices')} devices"]
            if rate is not None
            else []
        )
        if share is not None:
            said.append(
                f"the replica with the fewest samples had {share:.0%} of what the one with the most had"
            )
        if balancer:
            whose = (
                "cores of its own" if balancer["apart"] else "the replicas' cores, which it took from them"
            )
            said.append(
                f"{balancer['kind']} {balancer['version']} before them ({balancer['policy']}) ran on {whose}"
            )
        sentences.append(f"{view.label}: {'; '.join(said)}.")
    return " ".join(sentences)


def tables(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """A row for each replica, and one for what stands before them; [] without such a run."""
    rows = []
    for view, servers, each in replicated(views):
        assert view.result is not None
        cores = {server["number"]: server["cores"] for server in servers["servers"]}
        for row in each.get("replicas", ()):
            share = row["samples_ratio"]
            rows.append(
                [
                    view.label, f"replica {row['number']}", row["device_id"], _listed(cores.get(row["number"], [])),
                    number(row["samples"]), "–" if share is None else f"{share:.1%}",
                    number(row["cpu_cores"]), _mib(row["rss_bytes"]),
                ]
            )  # fmt: skip
        if balancer := servers.get("balancer"):
            used = value_at(view.result.summary.model_dump(), "resources.balancer") or {}
            rows.append(
                [
                    view.label, str(balancer["kind"]), "of its own" if balancer["apart"] else "the replicas'",
                    _listed(balancer["core_numbers"]), "–", "–", number(value_at(used, "cpu_cores.mean")),
                    _mib(value_at(used, "rss_bytes.max")),
                ]
            )  # fmt: skip
    if not rows:
        return []
    head = ["run", "which", "device", "cores", "samples", "share", "CPU, cores", "memory, MiB"]
    return [{"title": "The replicas", "head": head, "rows": rows, "numbers": [4, 5, 6, 7], "note": _NOTE}]


def _listed(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores)) or "–"


def _mib(value: float | None) -> str:
    return number(None if value is None else value / 2**20)
