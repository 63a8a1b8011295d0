"""A region of shared memory at a server of KServe v2: registered, asked from, unregistered; one question at a time."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from typing import Any

import orjson

from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.clients.answers import BadAnswer, Outputs
from inferbench_tasks.clients.grpc_message import METHODS, frame, unframe
from inferbench_tasks.clients.unary import RefusedCall, ask
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError
from inferbench_tasks.protocols.bounded_http import BoundedConnection
from inferbench_tasks.protocols.bounds import answer_bytes
from inferbench_tasks.protocols.kserve_proto import SERVICE, message
from inferbench_tasks.protocols.shared_memory import PlacedTensor

_TIMEOUT_S = 10.0
_MAX_STATE_BYTES = 1 << 16


def register(endpoint: Endpoint, key: str, byte_size: int) -> None:
    """Have the server map so many bytes of a region, by its key as its name; LoadError where it does not."""
    _tell(endpoint, "register", key, {"key": key, "offset": 0, "byte_size": byte_size})


def unregister(endpoint: Endpoint, key: str) -> None:
    """Have the server forget a region; one that it does not know is forgotten. LoadError where it does not."""
    _tell(endpoint, "unregister", key, {})


def infer(endpoint: Endpoint, tensors: Sequence[PlacedTensor]) -> Outputs:
    """The answer to one request whose inputs lie in shared memory; LoadError where there is none."""
    what = "a request whose inputs lie in shared memory"
    try:
        if endpoint.protocol == "grpc":
            wire = kserve_grpc.encode_placed(endpoint, tensors)
            answer = _call(endpoint, METHODS["grpc"], unframe(wire), answer_bytes(), what)
            return kserve_grpc.decode_answer(frame(answer))
        head, _, body = kserve_http.encode_placed(endpoint, tensors).partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        headers, answer = _post(endpoint, path, body, answer_bytes(), what)
        length = headers.get("inference-header-content-length")
        return kserve_http.decode_answer(kserve_http.answer_of(answer, int(length) if length else None))
    except (BadAnswer, ValueError) as error:
        raise LoadError(f"{endpoint.url} gave no answer to {what}: {error}") from error


def _tell(endpoint: Endpoint, verb: str, key: str, fields: dict[str, Any]) -> None:
    what = f"to {verb} the shared memory of the requests"
    if endpoint.protocol == "grpc":
        method = f"SystemSharedMemory{verb.capitalize()}"
        request = message(f"{method}Request")(name=key, **fields)
        _call(endpoint, f"/{SERVICE}/{method}", request.SerializeToString(), _MAX_STATE_BYTES, what)
        return
    path = f"/v2/systemsharedmemory/region/{key}/{verb}"
    _post(endpoint, path, orjson.dumps(fields), _MAX_STATE_BYTES, what)


def _call(endpoint: Endpoint, path: str, request: bytes, max_bytes: int, what: str) -> bytes:
    try:
        return ask(endpoint, path, request, timeout_s=_TIMEOUT_S, max_bytes=max_bytes)
    except (RefusedCall, OSError) as error:
        raise LoadError(f"{endpoint.url} refused {what}: {error}") from error


def _post(
    endpoint: Endpoint, path: str, body: bytes, max_bytes: int, what: str
) -> tuple[dict[str, str], bytes]:
    connection = BoundedConnection(endpoint.host, endpoint.port, _TIMEOUT_S)
    try:
        status, headers, answer = connection.ask(
            "POST", path, body, {"content-type": "application/json"}, max_bytes=max_bytes
        )
    except (OSError, http.client.HTTPException) as error:
        raise LoadError(f"{endpoint.url} did not answer {what}: {error}") from error
    finally:
        connection.close()
    if status != 200:
        raise LoadError(
            f"{endpoint.url} refused {what}: HTTP {status}: {answer[:300].decode(errors='replace')}"
        )
    return headers, answer
