"""What ``load.transport: shared_memory`` can't go with: where server or requests have nothing at a fixed place."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec

_FIELD = "load.transport"
_REMEDY = "or transport: network"


def transport_findings(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """Of a job whose inputs are to lie in shared memory. What only the samples tell is looked at by ``serve``."""
    load = spec.traffic
    if spec.streamed:
        yield _finding("load.protocol", "prompts of language models are texts; leave transport out")
    elif not backend.shared_memory:
        yield _finding(
            "serve.backend",
            f"the backend {spec.serve.backend} reads no inputs from shared memory; triton and our own server "
            f"(onnxruntime, openvino, torchscript, ...) do; use one of these, {_REMEDY}",
        )
    if spec.serve.launcher != "process":
        yield _finding(
            "serve.launcher",
            f"a server in a container has shared memory of its own; use launcher: process, {_REMEDY}",
        )
    if load.network != "lan":
        yield _finding(
            "load.network",
            f"inputs in shared memory pass no network, emulated or not; use network: lan, {_REMEDY}",
        )
    if load.client == "tritonclient":
        yield _finding(
            "load.client", f"tritonclient writes each request with its data; use fast or reference, {_REMEDY}"
        )
    if load.engine != "inferbench":
        yield _finding(
            "load.engine",
            f"MLPerf's LoadGen chooses the samples of a request itself; use inferbench, {_REMEDY}",
        )
    if spec.processors is not None and spec.processors.side == "client":
        yield _finding(
            "processors.side",
            f"what the client makes while the load runs is not there before it; use side: server, {_REMEDY}",
        )
    if any(size.drawn for size in spec.requests.sizes or ()):
        yield _finding(
            "requests.sizes", f"samples of drawn sizes have no fixed place; give numbers, {_REMEDY}"
        )
    for block in ("evaluate", "trace", "share"):
        if getattr(spec, block) is not None:
            yield _finding(
                block, f"{block} sends requests of its own, over the network so far; leave it out, {_REMEDY}"
            )


def _finding(other: str, message: str) -> Finding:
    return Finding((_FIELD, other), message)
