"""Which models a server of OpenAI's API has."""

from __future__ import annotations

import http.client

import orjson

from inferbench_tasks.clients.openai_form import StreamTarget, without_key
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.protocols.bounded_http import BoundedConnection

_TIMEOUT_S = 10.0
_MAX_BYTES = 4 << 20


def list_models(endpoint: Endpoint, target: StreamTarget, base: str) -> list[str]:
    """Their names; InputError, without the key, where the server does not tell."""
    if target.tls:
        raise InputError("Which model? Name it with --model: over https the server is not asked")
    key = target.key()
    connection = BoundedConnection(endpoint.host, endpoint.port, _TIMEOUT_S)
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        status, _, body = connection.ask("GET", f"{base}/models", headers=headers, max_bytes=_MAX_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"{endpoint.url} does not say which models it has: {error}") from error
    finally:
        connection.close()
    try:
        if status != 200:
            raise ValueError(f"HTTP {status}: {without_key(body[:300].decode(errors='replace'), key)}")
        names = [entry["id"] for entry in orjson.loads(body)["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{endpoint.url} does not say which models it has: {error}") from error
    shown = [name for name in names if isinstance(name, str) and name.isprintable() and len(name) <= 1000]
    if any(without_key(name, key) != name for name in shown):
        raise InputError(
            f"{endpoint.url} names models with the API key in their names; name one with --model"
        )
    return shown
