"""KServe v2 over HTTP with the binary-tensor extension."""

from __future__ import annotations

import http.client
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from inferbench_tasks.backends.probes.base import Arrays, Refused, as_array, max_answer_bytes
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.bounded_http import BoundedConnection
from inferbench_tasks.protocols.datatypes import NUMPY_OF, datatype_of, pack_bytes, unpack_bytes
from inferbench_tasks.protocols.rows_of_one import with_axis
from inferbench_tasks.servers.codec import HEADER_LENGTH

#: Of a health state or statistics.
_MAX_STATE_BYTES = 1 << 20


class KserveHttp:
    """One connection, opened again when the server closed it."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._connection = BoundedConnection(endpoint.host, endpoint.port, timeout_s)
        self._model = f"/v2/models/{endpoint.model_name}"

    def live(self) -> bool:
        """Whether ``GET /v2/health/live`` answers 200."""
        return self._ok("/v2/health/live")

    def ready(self) -> bool:
        """Whether ``GET /v2/models/{model}/ready`` answers 200."""
        return self._ok(f"{self._model}/ready")

    def infer(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Ask the model once; tensors travel as binary data both ways."""
        items, tail = [], []
        for name, value in (with_axis(inputs) if self._endpoint.rows_of_one else inputs).items():
            array = as_array(value)
            datatype = datatype_of("object" if array.dtype.kind in "OSU" else array.dtype.name)
            raw = pack_bytes(array) if datatype == "BYTES" else array.tobytes()
            parameters = {"binary_data_size": len(raw)}
            items.append(
                {"name": name, "datatype": datatype, "shape": list(array.shape), "parameters": parameters}
            )
            tail.append(raw)
        head = orjson.dumps({"inputs": items, "parameters": {"binary_data_output": True}})
        headers = {HEADER_LENGTH: str(len(head)), "content-type": "application/octet-stream"}
        status, answer_headers, body = self._ask(
            "POST", f"{self._model}/infer", b"".join([head, *tail]), headers, max_bytes=max_answer_bytes()
        )
        if status != 200:
            raise Refused(_error(body, status))
        try:
            return _outputs(body, answer_headers.get(HEADER_LENGTH))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Refused(f"not an answer of KServe v2: {type(error).__name__}: {error}") from error

    def statistics(self) -> dict[str, Any] | None:
        """The answer of ``GET /v2/models/{model}/stats``; None where the server has none."""
        status, _, body = self._ask("GET", f"{self._model}/stats")
        if status != 200:
            return None
        try:
            document: dict[str, Any] = orjson.loads(body)["model_stats"][0]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        return document

    def server_version(self) -> str | None:
        """The version in the answer of ``GET /v2``; None where the server tells none."""
        status, _, body = self._ask("GET", "/v2")
        try:
            told = orjson.loads(body)["version"] if status == 200 else None
        except (KeyError, TypeError, ValueError):
            return None
        return told if isinstance(told, str) and told else None

    def close(self) -> None:
        """Close the HTTP connection to the server."""
        self._connection.close()

    def _ok(self, path: str) -> bool:
        try:
            return self._ask("GET", path)[0] == 200
        except OSError:
            return False

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        max_bytes: int = _MAX_STATE_BYTES,
    ) -> tuple[int, dict[str, str], bytes]:
        if self._endpoint.secret:
            headers = {**(headers or {}), "authorization": f"Bearer {self._endpoint.secret}"}
        try:
            return self._connection.ask(method, path, body, headers, max_bytes=max_bytes)
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self._endpoint.url}: {type(error).__name__}: {error}") from error


def _outputs(body: bytes, header_length: str | None) -> dict[str, NDArray[Any]]:
    at = int(header_length) if header_length else len(body)
    document = orjson.loads(body[:at])
    outputs: dict[str, NDArray[Any]] = {}
    for item in document["outputs"]:
        name, datatype, shape = item["name"], item["datatype"], item["shape"]
        size = item.get("parameters", {}).get("binary_data_size")
        if size is None:
            outputs[name] = np.array(item["data"], dtype=NUMPY_OF[datatype]).reshape(shape)
            continue
        raw = body[at : at + size]
        at += size
        count = int(np.prod(shape))
        if datatype == "BYTES":
            outputs[name] = unpack_bytes(raw, count, name).reshape(shape)
            continue
        expected = count * NUMPY_OF[datatype].itemsize
        if len(raw) != expected:
            raise Refused(
                f"output {name}: {len(raw)} bytes for shape {shape} of {datatype}, {expected} expected"
            )
        outputs[name] = np.frombuffer(raw, dtype=NUMPY_OF[datatype]).reshape(shape)
    return outputs


def _error(body: bytes, status: int) -> str:
    try:
        return f"HTTP {status}: {orjson.loads(body)['error']}"
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return f"HTTP {status}: {body[:300].decode(errors='replace')}"
