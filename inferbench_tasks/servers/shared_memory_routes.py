"""The routes of KServe v2's system shared memory over HTTP."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.shared_memory import Regions

#: Of a registration: a key and two numbers.
_MAX_BYTES = 4096


def add_routes(app: FastAPI, regions: Regions) -> None:
    """Status, register and unregister; 404 for all where the server was not started for it."""
    every, one = "/v2/systemsharedmemory", "/v2/systemsharedmemory/region/{name}"

    @app.get(f"{every}/status")
    async def all_regions() -> list[dict[str, Any]]:
        return regions.status(None)

    @app.get(f"{one}/status")
    async def region(name: str) -> list[dict[str, Any]]:
        return regions.status(name)

    @app.post(f"{one}/register")
    async def register(name: str, request: Request) -> Response:
        regions.require()
        document = await _document(request)
        regions.register(name, document.get("key"), document.get("offset", 0), document.get("byte_size"))
        return JSONResponse({})

    @app.post(f"{one}/unregister")
    async def unregister(name: str) -> Response:
        regions.unregister(name)
        return JSONResponse({})

    @app.post(f"{every}/unregister")
    async def unregister_all() -> Response:
        regions.unregister(None)
        return JSONResponse({})


async def _document(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BYTES:
            raise RequestProblem(f"body: more than {_MAX_BYTES} bytes", status=413)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestProblem(f"body: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise RequestProblem(f"body: a JSON object is needed, not {type(document).__name__}")
    return document
