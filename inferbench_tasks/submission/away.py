"""What a load from another host can't go with: servers that strangers could ask, and what needs one host."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import SHARED_MEMORY, JobSpec

_FIELD = "load.from"
_REMEDY = "or from: server_host"


def away_findings(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """Of a job whose load comes from another host than its server's."""
    load = spec.traffic
    if not backend.guarded:
        yield _finding(
            "serve.backend",
            f"the backend {spec.serve.backend} would answer whoever reaches its port; our own server (onnxruntime, "
            f"openvino, torchscript, ...) and triton take a secret with each request; use one of these, {_REMEDY}",
        )
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
    if load.client != "fast":
        yield _finding("load.client", f"only our own client sends the server's secret; use fast, {_REMEDY}")
    if load.engine != "inferbench":
        yield _finding(
            "load.engine", f"MLPerf's LoadGen sends from the server's host; use inferbench, {_REMEDY}"
        )
    if load.network != "lan":
        yield _finding(
            "load.network",
            f"the network between the hosts is a real one, and is measured; use lan, {_REMEDY}",
        )
    if load.transport == SHARED_MEMORY:
        yield _finding("load.transport", f"two hosts share no memory; use transport: network, {_REMEDY}")
    if load.arrivals.kind == "max_rate":
        yield _finding(
            "load.arrivals", f"max_rate does not search from another host yet; give a rate, {_REMEDY}"
        )
    for block in ("evaluate", "trace", "share"):
        if getattr(spec, block) is not None:
            yield _finding(block, f"{block} sends from the server's host so far; leave it out, {_REMEDY}")


def _finding(other: str, message: str) -> Finding:
    return Finding((_FIELD, other), message)
