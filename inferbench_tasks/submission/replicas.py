"""What replicas of a server behind a balancer (``serve.devices``) can't go with: what asks or watches one server."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import SHARED_MEMORY, JobSpec

_FIELD = "serve.devices"
_REMEDY = "or devices: 1"
_SPREAD = "serve.spread"
_TOGETHER = "or spread: one_host"


def replica_findings(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """Of a job whose server stands on several devices."""
    serve, load = spec.serve, spec.traffic
    if serve.devices == 1:
        if serve.balancer is not None:
            yield Finding(
                ("serve.balancer", _FIELD),
                "one server has no balancer before it; use devices: 2 or more, or leave it out",
            )
        if serve.spread != "one_host":
            yield Finding(
                (_SPREAD, _FIELD), "one server stands on one host; use devices: 2 or more, or leave it out"
            )
        return
    if serve.apart:
        yield from _apart_findings(spec, backend)
    if spec.streamed:
        yield _finding(
            "load.protocol", f"streams of tokens are asked of one server so far; use one device, {_REMEDY}"
        )
    elif not backend.replicas:
        yield _finding(
            "serve.backend",
            f"what the backend {serve.backend} tells beside its answers is of one server; our own servers over KServe "
            f"v2 (onnxruntime, openvino, torchscript, ...) can be several; use one of these, {_REMEDY}",
        )
    if serve.device.kind != "cpu":
        yield _finding(
            "serve.device",
            f"only one GPU is watched so far: of several the energy and clocks would be missing; use cpu, {_REMEDY}",
        )
    if serve.launcher != "process":
        yield _finding(
            "serve.launcher",
            f"a container is not kept to its device's cores; use launcher: process, {_REMEDY}",
        )
    if load.away:
        yield _finding(
            "load.from",
            f"a load from another host is watched at one server so far; use from: server_host, {_REMEDY}",
        )
    if load.transport == SHARED_MEMORY:
        yield _finding(
            "load.transport",
            f"a balancer hands on requests, no memory; use transport: network, {_REMEDY}",
        )
    if spec.systems is not None or spec.system is not None:
        block = "systems" if spec.systems is not None else "system"
        yield _finding(block, f"{block} chooses one device; leave it out, {_REMEDY}")
    for block in ("evaluate", "trace", "share"):
        if getattr(spec, block) is not None:
            yield _finding(block, f"{block} asks one server so far; leave it out, {_REMEDY}")


def _apart_findings(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """Of replicas on hosts of their own: servers that strangers could ask, and what asks them without their secret."""
    load = spec.traffic
    if backend.replicas and not backend.guarded:
        yield _spread(
            "serve.backend",
            f"the backend {spec.serve.backend} would answer whoever reaches its port; our own servers (onnxruntime, "
            f"openvino, torchscript, ...) take a secret with each request; use one of these, {_TOGETHER}",
        )
    if load.client != "fast":
        yield _spread("load.client", f"only our own client sends the servers' secret; use fast, {_TOGETHER}")
    if load.engine != "inferbench":
        yield _spread(
            "load.engine", f"MLPerf's LoadGen sends without the servers' secret; use inferbench, {_TOGETHER}"
        )
    if load.network != "lan":
        yield _spread(
            "load.network",
            f"the network to the other hosts is a real one, and is measured; use lan, {_TOGETHER}",
        )
    if load.arrivals.kind == "max_rate":
        yield _spread(
            "load.arrivals", f"max_rate does not search over several hosts yet; give a rate, {_TOGETHER}"
        )


def _spread(other: str, message: str) -> Finding:
    return Finding((_SPREAD, other), message)


def _finding(other: str, message: str) -> Finding:
    return Finding((_FIELD, other), message)
