"""What a sender does for the first time with its first answer, done before the load begins.

The first answer of a kind imports its decoder, builds protobuf's classes and reads a first header block:
70 ms in which a gRPC sender would send nothing.
"""

from __future__ import annotations

from inferbench_tasks.clients.grpc_message import frame
from inferbench_tasks.clients.http2 import HeaderBlocks, literal
from inferbench_tasks.loadgen.null_server import answer_message
from inferbench_tasks.loadgen.payloads import protocol_codec
from inferbench_tasks.loadgen.plan import LoadPlan


def rehearse(plan: LoadPlan) -> None:
    """Decode an answer of the plan's protocol; import what the load will need."""
    protocol = plan.endpoint.protocol
    raw = answer_message(protocol, 64)
    plain = protocol in ("http", "openai")
    protocol_codec(plan)[1](raw if plain else frame(raw))
    if not plain:
        HeaderBlocks().read(b"\x88" + literal("content-type", "application/grpc"))
    if plan.mlperf is not None:
        import mlperf_loadgen  # noqa: F401
