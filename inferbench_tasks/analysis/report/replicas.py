"""Runs whose server stood on several devices: which replica answered how much, where it stood, and what before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.client_host import MOMENTS, round_trips
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.link import LEAST
from inferbench_tasks.dotted import value_at

_NOTE = (
    "Samples: as each replica counted them, over the whole load. CPU and memory: in the measured window; the server's "
    "figures elsewhere are their sums. What stands before them is no part of these."
)
_LINK_NOTE = (
    "From the host with the load and what stands before the replicas: of a byte and its answer over one TCP "
    "connection. Nothing of it is taken off a latency."
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
        trips = [
            f"replica {host['number']} ({host['host']}) {number(trip['p50_ms'])} ms"
            for host in servers.get("hosts") or ()
            if (trip := round_trips(host).get("meanwhile")) and trip["p50_ms"] is not None
        ]
        if trips:
            said.append(f"the median round trip while it was measured was to {', to '.join(trips)}")
        sentences.append(f"{view.label}: {'; '.join(said)}.")
    return " ".join(sentences)


def tables(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """A row for each replica, and one for what stands before them, and of replicas on hosts of their own what these
    are and how far; [] without such a run.
    """
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
    each = {"title": "The replicas", "head": head, "rows": rows, "numbers": [4, 5, 6, 7], "note": _NOTE}
    return [each, *_of_hosts(views)]


def _of_hosts(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """What the other hosts are, the way there, and how their clocks lay."""
    machines, links = [], []
    for view, servers, _ in replicated(views):
        for host in servers.get("hosts") or ():
            hardware, error_ms = host.get("hardware") or {}, host.get("clock_error_ms")
            memory = hardware.get("memory_bytes")
            machines.append(
                [
                    view.label, f"replica {host['number']}", host["host"], hardware.get("cpu") or "–",
                    number(hardware.get("cores_logical")), number(memory and memory / 2**30),
                    number(error_ms) if error_ms is not None else host.get("clock_reason") or "–",
                ]
            )  # fmt: skip
            links += [[view.label, host["host"], *row] for row in _trips(host)]
    if not machines:
        return []
    of_link = [
        "run", "to", "when", "round trips", "least, ms", "p50, ms", "p90, ms", "p99, ms", "most, ms",
        "to it, Mbit/s", "from it, Mbit/s",
    ]  # fmt: skip
    return [
        {
            "title": "The hosts of the replicas beside the first",
            "head": [
                "run",
                "which",
                "host",
                "processor",
                "cores",
                "memory, GiB",
                "its clock misplaced by at most, ms",
            ],
            "rows": machines,
            "numbers": [4, 5, 6],
        },
        {
            "title": "The network to the replicas",
            "head": of_link,
            "rows": links,
            "numbers": list(range(3, len(of_link))),
            "note": _LINK_NOTE,
        },
    ]


def _trips(host: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for moment, trip in round_trips(host).items():
        link = host["link"].get(moment) or {}
        figures = [number(trip[name]) for name in ("min_ms", *LEAST, "max_ms")]
        rates = [number(link.get(name)) for name in ("up_mbit_s", "down_mbit_s")]
        rows.append([MOMENTS[moment], number(trip["count"]), *figures, *rates])
    return rows


def _listed(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores)) or "–"


def _mib(value: float | None) -> str:
    return number(None if value is None else value / 2**20)
