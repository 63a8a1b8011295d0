"""Part of ``collect``: what was recorded on the hosts of replicas, on one clock, the sums over them, and what is kept.

What is a host's (its CPU, its waits, its clocks, its power) is told of each for itself; of the servers alone there are
sums. Where one host's part is missing there is none: what is left is not the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.replicas import Replica
from inferbench_tasks.stages import one_load, serve
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.stages.spread.handles import FarReplica, Followed

if TYPE_CHECKING:
    from inferbench_tasks.metrics.base import ServerHost
    from inferbench_tasks.monitors.records import Recording, Series
    from inferbench_tasks.perfdb.store import PerfDB

#: Of the servers what adds up over hosts, and what is kept of each (``monitors.server``).
_SUMS = ("cpu_s_total", "waited_s_total", "rss_bytes", "threads", "processes", "cpu_cores")
_EACH = ("cpu_s_total", "waited_s_total", "rss_bytes")
#: What is on the first host alone, and whole there: who sends, and what hands on.
_OF_THE_FIRST = ("client", "balancer")
#: The recording that figures are made of, in the run's folder and with the result.
_ALL_FILE, MONITORS_FILE = "all-monitors.parquet", "monitors.parquet"
#: A gap between samples (``monitors.records.Series.covers``).
_GAP_NS = 1_000_000_000
_UNTOLD = (
    "how its clock lies to the load's in the window is not known: nothing recorded there can be put beside it"
)


def hosts_of(
    served: serve.Output, followed: Sequence[Followed], first: Recording, hardware: Mapping[str, Any]
) -> tuple[ServerHost, ...]:
    """All hosts with a replica, the first with the balancer and the load; those of others are on its clock.

    ``first``, ``hardware``: the recording and the machine of that one.
    """
    from inferbench_tasks.metrics.base import ServerHost
    from inferbench_tasks.monitors import two_hosts
    from inferbench_tasks.monitors.records import EMPTY, read_recording

    (here,) = served.replicas_here
    hosts = [ServerHost(1, here.host, first, dict(hardware))]
    for far, of in zip(served.far_replicas, followed, strict=True):
        recording, unwatched = EMPTY, _UNTOLD
        if of.ahead_ns is not None and of.error_ns is not None:
            place = two_hosts.Placed(of.ahead_ns, of.error_ns)
            recording = two_hosts.on_near_clock(read_recording(Path(of.monitors_path)), place)
            unwatched = ""
        hosts.append(
            ServerHost(far.replica.number, far.replica.host, recording, far.hardware, unwatched=unwatched)
        )
    return tuple(hosts)


def together(hosts: Sequence[ServerHost]) -> Recording:
    """The servers of all hosts as one, each beside the sums, with the load and the balancer of the first."""
    first = hosts[0].recording
    series = {name: one for name, one in first.series.items() if name[0] in _OF_THE_FIRST}
    for name in _EACH:
        for host in hosts:
            if (own := host.recording.get("server", name)) is not None:
                series["server", f"replica{host.number}_{name}"] = own
    missing = [host for host in hosts if host.recording.get("server", "cpu_s_total") is None]
    if not missing:
        for name in _SUMS:
            each = [host.recording.get("server", name) for host in hosts]
            if (total := _sum(each, counted=name.endswith("_total"))) is not None:
                series["server", name] = total
    return replace(first, series=series, about=_about(hosts, missing))


def _about(hosts: Sequence[ServerHost], missing: Sequence[ServerHost]) -> dict[str, Any]:
    """What watching cost on all hosts, and what went wrong with it on any, by its name; why each one's own figures
    (``of_each_host``) and the sums are not there.
    """
    first = hosts[0].recording.about
    costs = [cost for host in hosts if (cost := host.recording.about.get("cpu_cores")) is not None]
    problems = [
        f"{host.name}: {problem}" for host in hosts if (problem := host.recording.about.get("problem"))
    ]
    unavailable = dict(first.get("unavailable") or {})
    for host in hosts:
        own = (host.recording.about.get("unavailable") or {}).get("host")
        if reason := host.unwatched or own:
            unavailable[_host_of(host)] = reason
    if missing:
        names = " and ".join(f"replica {host.number} ({host.name})" for host in missing)
        reason = f"what the server of {names} used is not known, and the others' is not the whole"
        unavailable["server"] = reason
    return {
        **first,
        "cpu_cores": sum(costs) if len(costs) == len(hosts) else None,
        "problem": "; ".join(problems) or None,
        "unavailable": unavailable,
    }


def _host_of(host: ServerHost) -> str:
    """Where ``resources`` has what that host used in all."""
    return f"replica{host.number}_host"


def _sum(each: Sequence[Series | None], *, counted: bool) -> Series | None:
    """The sum where all are known, at the moments of the first, read between samples by interpolation; else None.

    ``counted``: of counters; what a gauge was in a gap of any nobody knows, so that its sum has the gap too.
    """
    from inferbench_tasks.monitors.records import Series

    known = [one for one in each if one is not None and len(one.t_ns)]
    if len(known) < len(each):
        return None
    start_ns, end_ns = max(one.t_ns[0] for one in known), min(one.t_ns[-1] for one in known)
    t_ns = known[0].t_ns
    inside = (t_ns >= start_ns) & (t_ns <= end_ns)
    if not counted:
        for one in known[1:]:
            inside &= ~_in_gap(t_ns, one.t_ns)
    t_ns = t_ns[inside]
    if not len(t_ns):
        return None
    return Series(t_ns, np.sum([np.interp(t_ns, one.t_ns, one.values) for one in known], axis=0))


def _in_gap(t_ns: NDArray[np.int64], seen_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which moments lie between two of ``seen_ns`` that are further apart than the moments are there, and than 1 s."""
    after = np.searchsorted(seen_ns, t_ns)
    apart_ns = seen_ns[np.minimum(after, len(seen_ns) - 1)] - seen_ns[np.maximum(after - 1, 0)]
    # Both samplers are slower the longer they run; one of them may be so a little earlier, by half.
    usual_ns = np.diff(t_ns, prepend=t_ns[0])
    return apart_ns > np.maximum(_GAP_NS, 2.5 * usual_ns)


def of_each_host(hosts: Sequence[ServerHost], start_ns: int, end_ns: int) -> dict[str, Any]:
    """Of ``resources`` what is each host's own."""
    from inferbench_tasks.monitors.usage import usage

    return {_host_of(host): usage(host.recording, start_ns, end_ns).get("host") for host in hosts}


def stored(
    db: PerfDB,
    inp: StageInput,
    served: serve.Output,
    loaded: one_load.Output,
    hosts: Sequence[ServerHost],
    of_all: Recording,
    folder: Path,
) -> dict[str, Any]:
    """What a result says of the hosts of replicas: ``hosts``, those beside the first one; and the recordings, that
    ``of_all`` (``monitors``), by the load's clock, and each host's as it was made.
    """
    from inferbench_tasks.monitors.two_hosts import write

    def put(path: Path, name: str | None = None) -> dict[str, Any]:
        return db.files.put(path, name or path.name, run_id=inp.run_id, attempt=inp.attempt).model_dump()

    far, followed, path = served.far_replicas, loaded.followed, folder / _ALL_FILE
    write(of_all, path)
    assert loaded.monitors_path is not None
    kept: dict[str, Any] = {
        "monitors": put(path, MONITORS_FILE),
        "first_monitors": put(Path(loaded.monitors_path), "replica-1-monitors.parquet"),
    }
    kept["hosts"] = [
        {
            "number": one.replica.number,
            "host": one.replica.host,
            "hardware": one.hardware,
            "system": one.system,
            "link": of.link.model_dump(mode="json"),
            "round_trip_meanwhile": of.meanwhile and of.meanwhile.model_dump(),
            "clock_error_ms": None if of.error_ns is None else of.error_ns / 1e6,
            "clock_reason": host.unwatched,
            "quiet": one.quiet,
            "monitors": put(Path(of.monitors_path)),
        }
        for one, of, host in zip(far, followed, hosts[1:], strict=True)
    ]
    return kept


def hardware_of(far: Sequence[FarReplica]) -> list[dict[str, Any]]:
    """The machines of the replicas beside the first."""
    return [one.hardware for one in far]


def host_names(replicas: Sequence[Replica]) -> str:
    """Of all hosts where each replica has one, in an order that does not tell which was the first; "" of one host."""
    return " and ".join(sorted(replica.host for replica in replicas if replica.host))
