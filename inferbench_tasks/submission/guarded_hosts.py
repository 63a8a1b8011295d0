"""What a job can't go with whose server listens on its host's address, whether for a load from another host
(``load.from``) or behind a balancer there (``serve.spread``): whatever asks without the run's secret, or over less than
the network that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec

#: Those of which each takes a secret with each request.
OWN_SERVERS = "our own servers (onnxruntime, openvino, torchscript, ...)"


def open_server(spec: JobSpec, field: str, remedy: str, others: str = "") -> Finding:
    """Of a server that strangers could ask. ``others``: what takes a secret, too, and may stand here."""
    return Finding(
        (field, "serve.backend"),
        f"the backend {spec.serve.backend} would answer whoever reaches its port; {OWN_SERVERS}{others} take a secret "
        f"with each request; use one of these, {remedy}",
    )


def asking_findings(spec: JobSpec, field: str, remedy: str) -> Iterator[Finding]:
    """Of what asks such a server, and of the network to it."""
    load = spec.traffic

    def refused(other: str, reason: str) -> Finding:
        return Finding((field, other), f"{reason}, {remedy}")

    if load.client != "fast":
        yield refused("load.client", "only our own client sends the server's secret; use fast")
    if load.engine != "inferbench":
        yield refused("load.engine", "MLPerf's LoadGen sends without the server's secret; use inferbench")
    if load.network != "lan":
        yield refused("load.network", "the network between the hosts is a real one, and is measured; use lan")
    if load.arrivals.kind == "max_rate":
        yield refused("load.arrivals", "max_rate does not search over several hosts yet; give a rate")


def one_server_findings(
    spec: JobSpec, field: str, remedy: str, blocks: Iterable[str] = ("evaluate", "trace", "share")
) -> Iterator[Finding]:
    """Of what asks one server, from its own host. ``blocks``: those that do."""
    for block in blocks:
        if getattr(spec, block) is not None:
            yield Finding(
                (field, block),
                f"{block} asks one server so far, and from that one's host; leave it out, {remedy}",
            )
