"""OpenAI's API: whether a server is there and lists its models; answers are streams, which the load's client reads."""

from __future__ import annotations

import http.client
from typing import Any

import orjson
from numpy.typing import NDArray

from inferbench_tasks.backends.probes.base import Arrays, Refused
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.bounded_http import BoundedConnection

_MAX_BYTES = 4 << 20


class OpenAIProbe:
    """One connection, opened again when the server closed it."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._connection = BoundedConnection(endpoint.host, endpoint.port, timeout_s)

    def live(self) -> bool:
        """Whether it answers at all, be it that its model is still loading."""
        return self._models() is not None

    def ready(self) -> bool:
        """Whether ``GET /v1/models`` answers 200 and has the model."""
        answer = self._models()
        if answer is None or answer[0] != 200:
            return False
        try:
            names = [entry["id"] for entry in orjson.loads(answer[1])["data"]]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return False
        return self._endpoint.model_name in names

    def model(self) -> dict[str, Any]:
        """What the server says of the model; {} where it says nothing."""
        answer = self._models()
        if answer is None or answer[0] != 200:
            return {}
        for entry in orjson.loads(answer[1])["data"]:
            if entry.get("id") == self._endpoint.model_name:
                return dict(entry)
        return {}

    def infer(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """A language model takes no tensors."""
        raise Refused("a language model is asked for streams of tokens, not for tensors")

    def statistics(self) -> dict[str, Any] | None:
        """The API has none."""
        return None

    def close(self) -> None:
        """End the connection to the server."""
        self._connection.close()

    def _models(self) -> tuple[int, bytes] | None:
        try:
            status, _, body = self._connection.ask("GET", "/v1/models", max_bytes=_MAX_BYTES)
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None
        return status, body
