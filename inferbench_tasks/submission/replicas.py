"""What replicas of a server behind a balancer (``serve.devices``) can't go with: what asks or watches one server."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.guarded_hosts import asking_findings, one_server_findings, open_server
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
        if backend.replicas and not backend.guarded:
            yield open_server(spec, _SPREAD, _TOGETHER)
        yield from asking_findings(spec, _SPREAD, _TOGETHER)
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
    yield from one_server_findings(spec, _FIELD, _REMEDY)


def _finding(other: str, message: str) -> Finding:
    return Finding((_FIELD, other), message)
