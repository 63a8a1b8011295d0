"""KServe v2 over gRPC."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.backends.probes.base import Arrays, Refused, as_array
from inferbench_tasks.backends.probes.channel import GrpcChannel
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.datatypes import NUMPY_OF, datatype_of, pack_bytes, unpack_bytes
from inferbench_tasks.protocols.kserve_proto import SERVICE, message
from inferbench_tasks.protocols.rows_of_one import with_axis


class KserveGrpc:
    """A probe of a KServe v2 server over gRPC."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._channel = GrpcChannel(endpoint, timeout_s)

    def live(self) -> bool:
        """Whether the server answers ``ServerLive`` with yes."""
        try:
            return bool(self._call("ServerLive").live)
        except (Refused, OSError):
            return False

    def ready(self) -> bool:
        """Whether the server answers ``ModelReady`` with yes."""
        try:
            return bool(self._call("ModelReady", name=self._endpoint.model_name).ready)
        except (Refused, OSError):
            return False

    def infer(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Ask the model once; tensors travel as raw contents both ways."""
        request = message("ModelInferRequest")(model_name=self._endpoint.model_name)
        for name, value in (with_axis(inputs) if self._endpoint.rows_of_one else inputs).items():
            array = as_array(value)
            datatype = datatype_of("object" if array.dtype.kind in "OSU" else array.dtype.name)
            request.inputs.add(name=name, datatype=datatype, shape=array.shape)
            request.raw_input_contents.append(pack_bytes(array) if datatype == "BYTES" else array.tobytes())
        response = self._send("ModelInfer", request)
        try:
            return _outputs(response)
        except (KeyError, ValueError, OverflowError) as error:  # a datatype or a shape that is none
            raise Refused(f"not an answer of KServe v2: {type(error).__name__}: {error}") from error

    def statistics(self) -> dict[str, Any] | None:
        """``ModelStatistics``, in the form that HTTP gives them."""
        from google.protobuf.json_format import MessageToDict

        try:
            response = self._call("ModelStatistics", name=self._endpoint.model_name)
        except Refused:
            return None
        if not response.model_stats:
            return None
        document: dict[str, Any] = MessageToDict(
            response.model_stats[0],
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        integers: dict[str, Any] = _integers(document)
        return integers

    def server_version(self) -> str | None:
        """The version in ``ServerMetadata``; None where the server tells none."""
        try:
            return str(self._call("ServerMetadata").version) or None
        except Refused:
            return None

    def close(self) -> None:
        """Nothing stays open between two calls."""

    def _call(self, method: str, **fields: Any) -> Any:
        return self._send(method, message(f"{method}Request")(**fields))

    def _send(self, method: str, request: Any) -> Any:
        return self._channel.call(f"/{SERVICE}/{method}", request, message(f"{method}Response"))


def _outputs(response: Any) -> dict[str, NDArray[Any]]:
    outputs: dict[str, NDArray[Any]] = {}
    for item, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        shape, count = tuple(item.shape), math.prod(item.shape)
        if item.datatype == "BYTES":
            outputs[item.name] = unpack_bytes(raw, count, item.name).reshape(shape)
            continue
        expected = count * NUMPY_OF[item.datatype].itemsize
        if len(raw) != expected:
            raise Refused(
                f"output {item.name}: {len(raw)} bytes for shape {list(shape)} of {item.datatype}, "
                f"{expected} expected"
            )
        outputs[item.name] = np.frombuffer(raw, dtype=NUMPY_OF[item.datatype]).reshape(shape)
    return outputs


def _integers(value: Any) -> Any:
    """Protobuf's JSON has 64-bit integers as strings."""
    if isinstance(value, dict):
        return {k: v if k in ("name", "version") else _integers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_integers(item) for item in value]
    return int(value) if isinstance(value, str) else value
