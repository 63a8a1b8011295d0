"""A host in one line, for a terminal and for the page: numbers with their units, and what is not known as nothing."""

from __future__ import annotations

from collections.abc import Iterable

from inferbench_tasks.cluster.host import Interface
from inferbench_tasks.cluster.node_state import NodeLink, NodeState

COLUMNS = (
    "host",
    "state",
    "devices",
    "versions",
    "machine",
    "gpus",
    "links",
    "measured",
    "clock",
    "cache",
    "reason",
)
GB = 1e9


def row(state: NodeState) -> dict[str, str | None]:
    """Column -> text; None: nothing is known, or there is nothing to say."""
    return {
        "host": f"{state.host} (leader)" if state.leader else state.host,
        "state": state.state,
        "devices": _devices(state),
        "versions": _versions(state),
        "machine": _machine(state),
        "gpus": ", ".join(f"{gpu.name}, {gpu.memory_bytes / GB:.0f} GB ({gpu.uuid})" for gpu in state.gpus)
        or (state.gpus_unknown and f"not known: {state.gpus_unknown}")
        or "none",
        "links": _links(state.interfaces),
        "measured": "; ".join(map(_measured, state.measured_links)) or None,
        "clock": clock(state),
        "cache": _cache(state),
        "reason": "; ".join(filter(None, (state.reason, state.clock_warning, state.token_warning))) or None,
    }


def _devices(state: NodeState) -> str | None:
    of = f" (cluster {', '.join(state.clusters)})" if state.clusters else ""
    return ", ".join(state.devices) + of or None


def _versions(state: NodeState) -> str | None:
    if state.inferbench is None:
        return None
    return f"InferBench {state.inferbench}, Python {state.python}, protocol {state.protocol}"


def _machine(state: NodeState) -> str | None:
    if state.cpu is None or state.memory_bytes is None:
        return None
    cores = f"{state.cores_logical} threads"
    if state.cores_physical:
        cores = f"{state.cores_physical} cores, {cores}"
    if state.cores_usable != state.cores_logical:
        cores += f" ({state.cores_usable} usable)"
    return f"{state.cpu}, {cores}, {state.memory_bytes / GB:.0f} GB"


def _links(interfaces: Iterable[Interface]) -> str | None:
    return "; ".join(f"{i.name} {i.addresses[0]}, {_speed(i.speed_mbit_s)}" for i in interfaces) or None


def _speed(mbit_s: int | None) -> str:
    if mbit_s is None:
        return "speed not told"
    return f"{mbit_s / 1000:g} Gbit/s" if mbit_s >= 1000 else f"{mbit_s} Mbit/s"


def _measured(link: NodeLink) -> str:
    """``to b 0.213 ms, 941 Mbit/s there, 930 back, 5 min ago``."""
    parts = [] if link.round_trip_ms is None else [f"{link.round_trip_ms:,.3f} ms"]
    if link.up_mbit_s is not None and link.down_mbit_s is not None:
        parts.append(f"{link.up_mbit_s:,.0f} Mbit/s there, {link.down_mbit_s:,.0f} back")
    return ", ".join([f"to {link.to} {link.address}", *parts, ago(link.age_s)])


def ago(age_s: float) -> str:
    """``12 s ago``, ``5 min ago``, ``3 h ago``, ``4 days ago``."""
    for unit, length_s in (("days", 86_400), ("h", 3600), ("min", 60)):
        if age_s >= 2 * length_s:
            return f"{age_s / length_s:,.0f} {unit} ago"
    return f"{max(age_s, 0):.0f} s ago"


def clock(state: NodeState) -> str | None:
    """``+0.02 ± 0.11 ms, 12 s ago``: how far it is ahead of PerfDB's, and at most how wrong that is.

    ``WARNING`` before it where that is more than a clock is off which somebody keeps; ``reason`` says what to do.
    """
    if state.clock_ahead_s is None or state.clock_error_s is None:
        return None
    age = "" if state.clock_age_s is None else f", {state.clock_age_s:.0f} s ago"
    if state.clock_warning:
        return f"WARNING {state.clock_ahead_s:+,.1f} s{age}"
    return f"{state.clock_ahead_s * 1e3:+,.2f} ± {state.clock_error_s * 1e3:,.2f} ms{age}"


def _cache(state: NodeState) -> str | None:
    if state.cache_fetched_bytes is None or state.cache_limit_bytes is None or state.disk_free_bytes is None:
        return None
    used, limit, free = (
        bytes_ / GB for bytes_ in (state.cache_fetched_bytes, state.cache_limit_bytes, state.disk_free_bytes)
    )
    return f"{used:.2f} of {limit:.0f} GB fetched, {free:.0f} GB of the disk free"
