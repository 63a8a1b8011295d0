"""KServe v2 over HTTP as bytes: requests built before the load, answers read back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import httptools
import numpy as np
import orjson
from numpy.typing import NDArray

from inferbench_tasks.clients.answers import BadAnswer, Outputs
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.datatypes import NUMPY_OF, datatype_of, pack_bytes, unpack_bytes
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.protocols.rows_of_one import with_axis
from inferbench_tasks.protocols.shared_memory import BYTE_SIZE, OFFSET, REGION, PlacedTensor

_TEXT_KINDS = "OSU"


def encode_request(endpoint: Endpoint, inputs: Outputs, *, binary: bool = True) -> bytes:
    """A whole HTTP request. ``binary``: by the binary-tensor extension, both ways; otherwise JSON only."""
    items: list[dict[str, object]] = []
    tail: list[bytes] = []
    for name, value in (with_axis(inputs) if endpoint.rows_of_one else inputs).items():
        array = np.ascontiguousarray(value)
        datatype = datatype_of("object" if array.dtype.kind in _TEXT_KINDS else array.dtype.name)
        item: dict[str, object] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if binary:
            raw = pack_bytes(array) if datatype == "BYTES" else array.tobytes()
            item["parameters"] = {"binary_data_size": len(raw)}
            tail.append(raw)
        elif datatype == "BYTES":
            item["data"] = [v.decode() if isinstance(v, bytes) else str(v) for v in array.reshape(-1)]
        else:
            item["data"] = array.reshape(-1)
        items.append(item)
    document: dict[str, object] = {"inputs": items}
    if binary:
        document["parameters"] = {"binary_data_output": True}
    head = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return _whole(endpoint, b"".join([head, *tail]), len(head) if binary else None)


def encode_placed(endpoint: Endpoint, tensors: Sequence[PlacedTensor]) -> bytes:
    """A whole HTTP request whose inputs lie in shared memory; its answer comes by the binary-tensor extension."""
    items = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            "parameters": {REGION: tensor.region, OFFSET: tensor.offset, BYTE_SIZE: tensor.byte_size},
        }
        for tensor in tensors
    ]
    document = {"inputs": items, "parameters": {"binary_data_output": True}}
    return _whole(endpoint, orjson.dumps(document), None)


def _whole(endpoint: Endpoint, body: bytes, header_length: int | None) -> bytes:
    """The request around a body; ``header_length``: of its JSON where binary data follow."""
    version = f"/versions/{endpoint.model_version}" if endpoint.model_version else ""
    lines = [
        f"POST /v2/models/{endpoint.model_name}{version}/infer HTTP/1.1",
        f"Host: {endpoint.url}",
        f"Content-Length: {len(body)}",
    ]
    if endpoint.secret:
        lines.append(f"Authorization: Bearer {endpoint.secret}")
    if header_length is not None:
        lines += [
            "Content-Type: application/octet-stream",
            f"Inference-Header-Content-Length: {header_length}",
        ]
    else:
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + body


def decode_request(wire: bytes) -> tuple[Outputs, bool]:
    """The inputs of a request of ``encode_request``, and whether they are binary; for who writes it once more."""
    head, _, body = wire.partition(b"\r\n\r\n")
    _, binary, length = head.partition(b"\r\nInference-Header-Content-Length: ")
    at = int(length) if binary else len(body)
    inputs: Outputs = {}
    for item in orjson.loads(body[:at])["inputs"]:
        name, datatype, shape = item["name"], item["datatype"], tuple(item["shape"])
        if binary:
            size = item["parameters"]["binary_data_size"]
            inputs[name] = tensor_from_bytes(name, datatype, shape, body[at : at + size])
            at += size
        else:
            inputs[name] = np.array(item["data"], dtype=NUMPY_OF[datatype]).reshape(shape)
    return inputs, bool(binary)


class _Answer:
    """Collects what a parser finds in one answer."""

    def __init__(self, raw: bytes) -> None:
        self.header_length: int | None = None
        self._parts: list[bytes] = []
        try:
            httptools.HttpResponseParser(self).feed_data(raw)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise BadAnswer(f"not HTTP: {error}") from error
        self.body = b"".join(self._parts)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"inference-header-content-length" and value.isdigit():
            self.header_length = int(value)

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)


def decode_answer(raw: bytes) -> Outputs:
    """The outputs of a whole HTTP answer, JSON or JSON followed by binary data; BadAnswer says what is wrong."""
    answer = _Answer(raw)
    body = answer.body
    at = answer.header_length if answer.header_length is not None else len(body)
    try:
        document = orjson.loads(body[:at])
        outputs: Outputs = {}
        for item in document["outputs"]:
            name, datatype, shape = item["name"], item["datatype"], item["shape"]
            size = item.get("parameters", {}).get("binary_data_size")
            if size is None:
                outputs[name] = np.array(item["data"], dtype=NUMPY_OF[datatype]).reshape(shape)
                continue
            part = body[at : at + size]
            at += size
            outputs[name] = tensor_from_bytes(name, datatype, tuple(shape), part)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadAnswer(
            f"not an answer of KServe v2 ({type(error).__name__}: {error}): {body[:80]!r}"
        ) from error
    return outputs


def tensor_from_bytes(name: str, datatype: str, shape: tuple[int, ...], raw: bytes) -> NDArray[np.generic]:
    """A tensor of the protocol's datatype; BadAnswer if the bytes don't fill the shape."""
    count = math.prod(shape)  # NumPy takes 17 us for it
    if datatype not in NUMPY_OF:
        raise BadAnswer(f"output {name}: unknown datatype {datatype!r}")
    if datatype == "BYTES":
        try:
            return unpack_bytes(raw, count, f"output {name}").reshape(shape)
        except RequestProblem as error:
            raise BadAnswer(str(error)) from error
    dtype = NUMPY_OF[datatype]
    if len(raw) != count * dtype.itemsize:
        raise BadAnswer(
            f"output {name}: {len(raw)} bytes for the shape {list(shape)} of {datatype}, "
            f"{count * dtype.itemsize} are needed"
        )
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


def answer_of(body: bytes, header_length: int | None) -> bytes:
    """An HTTP answer around a body, for clients whose library has taken it apart already."""
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}"]
    if header_length is not None:
        lines.append(f"inference-header-content-length: {header_length}")
    return "\r\n".join([*lines, "", ""]).encode() + body
