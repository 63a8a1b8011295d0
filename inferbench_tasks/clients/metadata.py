"""What a server says of its model: names, types and shapes of inputs and outputs."""

from __future__ import annotations

import http.client
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from inferbench_tasks.clients import unary
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import show
from inferbench_tasks.protocols.bounded_http import BoundedConnection
from inferbench_tasks.protocols.datatypes import NUMPY_OF

_TIMEOUT_S = 5.0
#: gRPC's own bound of a message too.
_MAX_BYTES = 4 << 20
_MAX_NAME_CHARACTERS = 1000
#: numpy has no arrays of more axes.
_MAX_AXES = 32
#: Of one sample; 1 GiB of float32.
_MAX_ELEMENTS = 1 << 28
_MAX_SIZE_CHARACTERS = 20


@dataclass(frozen=True)
class Tensor:
    """``dtype`` is numpy's name; ``shape`` is whole, -1 for any size, None where nothing is known."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class ModelMetadata:
    """The name, the inputs and the outputs of a model as its server describes them."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def fetch_metadata(endpoint: Endpoint) -> ModelMetadata:
    """Ask the server; InputError if it does not answer or does not know the model."""
    fetch = {"http": _http, "grpc": _grpc, "grpc_tfs": _tfs}[endpoint.protocol]
    try:
        return fetch(endpoint)
    except (ValueError, RecursionError) as error:  # protobuf's DecodeError is a ValueError
        raise InputError(f"{endpoint.url} gives no model metadata that can be read: {error}") from error


def list_models(endpoint: Endpoint) -> list[str]:
    """The models that a KServe v2 server offers by its repository extension; [] if it has none."""
    if endpoint.protocol != "http":
        return []
    status, body = _ask(endpoint, "POST", "/v2/repository/index", b"{}")
    if status != 200:
        return []
    try:
        return [entry["name"] for entry in orjson.loads(body) if entry.get("state", "READY") == "READY"]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return []


def _http(endpoint: Endpoint) -> ModelMetadata:
    version = f"/versions/{endpoint.model_version}" if endpoint.model_version else ""
    path = f"/v2/models/{endpoint.model_name}{version}"
    status, body = _ask(endpoint, "GET", path)
    if status != 200:
        raise InputError(
            f"http://{endpoint.url}{path} answers {status}: {body[:300].decode(errors='replace')!r}. Is the "
            "model's name right? With --input FILE.npz no metadata is needed."
        )
    try:
        document = orjson.loads(body)
        return ModelMetadata(
            endpoint.model_name, _kserve(document["inputs"], dict.get), _kserve(document["outputs"], dict.get)
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"http://{endpoint.url}{path} gives no model metadata of KServe v2: {error}"
        ) from error


def _kserve(tensors: Any, get: Callable[[Any, str], Any]) -> tuple[Tensor, ...]:
    specs = []
    for tensor in tensors:
        name, datatype = get(tensor, "name"), get(tensor, "datatype")
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARACTERS:
            raise InputError(
                f"The server names a tensor {show(name)}; a name has 1 to {_MAX_NAME_CHARACTERS} characters"
            )
        known = datatype.removeprefix("TYPE_") if isinstance(datatype, str) else None
        if known not in NUMPY_OF:
            raise InputError(
                f"{show(name)}: datatype {show(datatype)} is not supported; known: {', '.join(NUMPY_OF)}"
            )
        specs.append(Tensor(name, NUMPY_OF[known].name, _shape(name, get(tensor, "shape"))))
    return tuple(specs)


def _shape(name: str, sizes: Any) -> tuple[int, ...]:
    """A shape as a server gives it; InputError where no tensor has it. Sizes may be texts: int64 is one in JSON."""
    try:
        if isinstance(sizes, (str, bytes, dict)):
            raise TypeError
        shape = tuple(
            size if isinstance(size, int) else int(str(size)[:_MAX_SIZE_CHARACTERS]) for size in sizes
        )
    except (TypeError, ValueError):
        shape = (0,)
    elements = math.prod(size for size in shape if size != -1)
    if len(shape) > _MAX_AXES or any(size < 1 and size != -1 for size in shape) or elements > _MAX_ELEMENTS:
        raise InputError(
            f"{show(name)}: the server gives the shape {show(sizes if isinstance(sizes, str) else str(sizes)[:200])}; "
            f"allowed are at most {_MAX_AXES} sizes, each from 1 or -1 for any, and {_MAX_ELEMENTS:,} elements in all"
        )
    return shape


def _ask(endpoint: Endpoint, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = BoundedConnection(endpoint.host, endpoint.port, _TIMEOUT_S)
    try:
        status, _, answer = connection.ask(method, path, body, max_bytes=_MAX_BYTES)
        return status, answer
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"No HTTP answer from {endpoint.url}: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _unary(endpoint: Endpoint, method: str, request: bytes) -> bytes:
    try:
        return unary.ask(endpoint, method, request, timeout_s=_TIMEOUT_S, max_bytes=_MAX_BYTES)
    except (OSError, unary.RefusedCall) as error:
        raise InputError(
            f"{endpoint.url}{method} answers {error}. Is the model's name right? "
            "With --input FILE.npz no metadata is needed."
        ) from error


def _grpc(endpoint: Endpoint) -> ModelMetadata:
    from inferbench_tasks.protocols.kserve_proto import SERVICE, message

    request = message("ModelMetadataRequest")(name=endpoint.model_name, version=endpoint.model_version)
    raw = _unary(endpoint, f"/{SERVICE}/ModelMetadata", request.SerializeToString())
    metadata = message("ModelMetadataResponse").FromString(raw)
    return ModelMetadata(
        endpoint.model_name, _kserve(metadata.inputs, getattr), _kserve(metadata.outputs, getattr)
    )


def _tfs(endpoint: Endpoint) -> ModelMetadata:
    from inferbench_tasks.clients.tfs_grpc import SIGNATURE
    from inferbench_tasks.clients.tfs_metadata import METHOD, NAMES, message

    request = message("Request")(metadata_field=["signature_def"])
    request.model_spec.name = endpoint.model_name
    raw = _unary(endpoint, METHOD, request.SerializeToString())
    response = message("Response").FromString(raw)
    signatures = message("SignatureDefMap").FromString(response.metadata["signature_def"].value).signature_def
    if SIGNATURE not in signatures:
        known = ", ".join(signatures) or "none"
        raise InputError(f"{endpoint.model_name} has no signature {SIGNATURE}; it has: {known}")
    signature = signatures[SIGNATURE]

    def tensors(infos: Any) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(
                name,
                NAMES.get(info.dtype, "object"),
                None
                if info.tensor_shape.unknown_rank
                else _shape(name, [dim.size for dim in info.tensor_shape.dim]),
            )
            for name, info in sorted(infos.items())
        )

    return ModelMetadata(endpoint.model_name, tensors(signature.inputs), tensors(signature.outputs))
