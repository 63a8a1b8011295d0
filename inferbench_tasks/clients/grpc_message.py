"""gRPC's own framing of a message, and the names of its status codes."""

from __future__ import annotations

import struct

from inferbench_tasks.clients.answers import BadAnswer

#: Path of the method that a load calls, by the endpoint's protocol.
METHODS = {
    "grpc": "/inference.GRPCInferenceService/ModelInfer",
    "grpc_tfs": "/tensorflow.serving.PredictionService/Predict",
}
_CODES = (
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range",
    "unimplemented", "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
_STATUSES = {str(number): f"grpc_{code}" for number, code in enumerate(_CODES)} | {"0": "ok"}
PREFIX_BYTES = 5


def frame(message: bytes) -> bytes:
    """A message with its prefix: not compressed, its length."""
    return struct.pack(">BI", 0, len(message)) + message


def unframe(data: bytes) -> bytes:
    """The one message in an answer; BadAnswer if there is another number of them, or a compressed one."""
    if len(data) < PREFIX_BYTES:
        raise BadAnswer(f"the answer has no message ({len(data)} bytes)")
    compressed, length = struct.unpack_from(">BI", data)
    if compressed:
        raise BadAnswer("the answer is compressed though no compression was offered")
    if length != len(data) - PREFIX_BYTES:
        raise BadAnswer(f"the message says {length} bytes, {len(data) - PREFIX_BYTES} came")
    return data[PREFIX_BYTES:]


def status_name(code: str) -> str:
    """The record's status for a ``grpc-status`` ("14" -> "grpc_unavailable"); "ok" for 0."""
    return _STATUSES.get(code, "grpc_unknown")
