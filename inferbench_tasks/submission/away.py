"""What a load from another host can't go with: servers that strangers could ask, and what needs one host."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.guarded_hosts import asking_findings, one_server_findings, open_server
from inferbench_tasks.submission.schema import SHARED_MEMORY, JobSpec

_FIELD = "load.from"
_REMEDY = "or from: server_host"
_HOSTS, _ALONE = "load.client_hosts", "client_hosts: 1"


def away_findings(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """Of a job whose load comes from another host than its server's."""
    load = spec.traffic
    if not backend.guarded:
        yield open_server(spec, _FIELD, _REMEDY, " and triton")
    if load.protocol not in ("http", "grpc"):
        yield _finding(
            "load.protocol",
            f"the secret of a request goes with http and grpc so far; use one of these, {_REMEDY}",
        )
    if spec.serve.launcher != "process":
        yield _finding(
            "serve.launcher",
            f"a container listens on its own host's loopback; use launcher: process, {_REMEDY}",
        )
    yield from asking_findings(spec, _FIELD, _REMEDY)
    if load.transport == SHARED_MEMORY:
        yield _finding("load.transport", f"two hosts share no memory; use transport: network, {_REMEDY}")
    yield from one_server_findings(spec, _FIELD, _REMEDY, ("evaluate", "share"))
    yield from _traced(spec)


def _traced(spec: JobSpec) -> Iterator[Finding]:
    """What is traced of it are requests of the load itself, which one client host sends again."""
    if spec.trace is None:
        return
    if spec.trace.one_in is None:
        yield _finding(
            "trace",
            "requests that are traced one by one are asked from the server's own host; trace requests of the load with "
            f"trace.one_in, leave trace out, {_REMEDY}",
        )
    elif spec.traffic.client_hosts > 1:
        yield Finding(
            (_HOSTS, "trace.one_in"),
            f"requests that {spec.traffic.client_hosts} hosts share are not traced yet, for one clock beside the "
            f"server's is known; leave trace out, or {_ALONE}",
        )


def shared_findings(spec: JobSpec) -> Iterator[Finding]:
    """Of a job whose load comes from several hosts."""
    load, hosts = spec.traffic, spec.traffic.client_hosts
    arrivals = load.arrivals
    if not load.away:
        yield Finding(
            (_HOSTS, _FIELD),
            f"{hosts} hosts share a load that comes from other hosts than the server's; use from: other_host, or "
            f"{_ALONE}",
        )
    if load.shards != "auto" and load.shards % hosts:
        more = load.shards + hosts - load.shards % hosts
        yield Finding(
            (_HOSTS, "load.shards"),
            f"{load.shards} senders can't be shared evenly by {hosts} hosts; use shards: {more}, auto, or {_ALONE}",
        )
    if load.connections is not None and load.connections < hosts:
        yield Finding(
            (_HOSTS, "load.connections"),
            f"{hosts} hosts need a connection each; allow {hosts} or more, or {_ALONE}",
        )
    if isinstance(arrivals, ClosedProcess):
        if arrivals.users < hosts:
            yield Finding(
                (_HOSTS, "load.arrivals"),
                f"{arrivals.users} {'user' if arrivals.users == 1 else 'users'} can't ask from {hosts} hosts; have "
                f"{hosts} at least, or {_ALONE}",
            )
    elif not arrivals.paced:
        yield Finding(
            (_HOSTS, "load.arrivals"),
            f"{arrivals.kind} hands all requests over at one instant, which {hosts} clocks do not share; give a rate "
            f"or users, or {_ALONE}",
        )


def _finding(other: str, message: str) -> Finding:
    return Finding((_FIELD, other), message)
