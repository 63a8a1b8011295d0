"""Requests and responses of KServe v2 over HTTP, with the binary-tensor extension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from inferbench_tasks.protocols.datatypes import Array, pack_bytes
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.shared_memory import NO_REGIONS, Regions, refuse_output
from inferbench_tasks.servers.signature import Signature, from_binary, from_json

HEADER_LENGTH = "inference-header-content-length"


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the client asked for."""

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """Checked tensors by name, their batch size, and what to answer."""

    id: str
    arrays: dict[str, Array]
    batch_size: int
    outputs: tuple[RequestedOutput, ...]


def decode_request(
    body: bytes, header_length: int | None, signature: Signature, regions: Regions = NO_REGIONS
) -> DecodedRequest:
    """A request's body; RequestProblem names the field that is wrong."""
    head, tail = _split(body, header_length)
    try:
        document = orjson.loads(head)
    except orjson.JSONDecodeError as error:
        raise RequestProblem(f"body: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise RequestProblem(f"body: a JSON object is needed, not {type(document).__name__}")
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise RequestProblem("inputs: a list with at least one input is needed")
    arrays: dict[str, Array] = {}
    at = 0
    for item in inputs:
        if not isinstance(item, dict):
            raise RequestProblem("inputs: each input is an object")
        tensor, shape = signature.input(item.get("name"), item.get("datatype"), item.get("shape"))
        if tensor.name in arrays:
            raise RequestProblem(f"inputs: {tensor.name} is given twice")
        parameters = _parameters(item, f"inputs.{tensor.name}")
        if (shared := regions.view(parameters, f"inputs.{tensor.name}")) is not None:
            arrays[tensor.name] = from_binary(tensor, shape, shared)
            continue
        size = parameters.get("binary_data_size")
        if size is None:
            if "data" not in item:
                raise RequestProblem(f"inputs.{tensor.name}: neither data nor parameters.binary_data_size")
            arrays[tensor.name] = from_json(tensor, shape, item["data"])
            continue
        if type(size) is not int or size < 0 or at + size > len(tail):
            raise RequestProblem(
                f"inputs.{tensor.name}.parameters.binary_data_size: {size!r:.40} given, "
                f"{len(tail) - at} bytes of binary data are left"
            )
        arrays[tensor.name] = from_binary(tensor, shape, tail[at : at + size])
        at += size
    if at != len(tail):
        raise RequestProblem(f"body: {len(tail) - at} bytes of binary data belong to no input")
    request_id = document.get("id", "")
    if not isinstance(request_id, str):
        raise RequestProblem("id: a string is needed")
    return DecodedRequest(
        request_id, arrays, signature.batch_size(arrays), _requested_outputs(document, signature)
    )


def _split(body: bytes, header_length: int | None) -> tuple[bytes | memoryview, memoryview]:
    if header_length is None:
        return body, memoryview(b"")
    if not 0 < header_length <= len(body):
        raise RequestProblem(
            f"Inference-Header-Content-Length: {header_length} given, the body has {len(body)} bytes"
        )
    view = memoryview(body)
    return view[:header_length], view[header_length:]


def _parameters(item: dict[str, Any], where: str) -> dict[str, Any]:
    parameters = item.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise RequestProblem(f"{where}.parameters: an object is needed")
    return parameters


def _requested_outputs(document: dict[str, Any], signature: Signature) -> tuple[RequestedOutput, ...]:
    binary = bool(_parameters(document, "request").get("binary_data_output", False))
    outputs = document.get("outputs")
    if not outputs:
        return tuple(RequestedOutput(name, binary) for name in signature.outputs)
    if not isinstance(outputs, list) or not all(isinstance(item, dict) for item in outputs):
        raise RequestProblem("outputs: a list of objects is needed")
    requested = []
    for item in outputs:
        name = signature.output(item.get("name")).name
        parameters = _parameters(item, f"outputs.{name}")
        if "classification" in parameters:
            raise RequestProblem(f"outputs.{name}.parameters.classification: not offered by this server")
        refuse_output(parameters, f"outputs.{name}")
        requested.append(RequestedOutput(name, bool(parameters.get("binary_data", binary))))
    return tuple(requested)


def encode_response(
    name: str, version: str, request: DecodedRequest, outputs: dict[str, Array], signature: Signature
) -> tuple[list[bytes], int | None]:
    """The body's parts, and the JSON part's length if binary data follow it (else None)."""
    items: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for output in request.outputs:
        array = np.ascontiguousarray(outputs[output.name])
        datatype = signature.outputs[output.name].datatype
        item: dict[str, Any] = {"name": output.name, "datatype": datatype, "shape": list(array.shape)}
        if output.binary:
            raw = pack_bytes(array) if datatype == "BYTES" else array.tobytes()
            item["parameters"] = {"binary_data_size": len(raw)}
            binary.append(raw)
        elif datatype == "FP16":
            raise RequestProblem(f"outputs.{output.name}: FP16 has no form in JSON; ask for binary data")
        elif datatype == "BYTES":
            item["data"] = [_text(value) for value in array.reshape(-1)]
        else:
            item["data"] = array.reshape(-1)
        items.append(item)
    document: dict[str, Any] = {"model_name": name, "model_version": version, "outputs": items}
    if request.id:
        document["id"] = request.id
    head = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return [head, *binary], len(head) if binary else None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
