"""KServe v2 over HTTP: a FastAPI app whose inference route is plain ASGI.

Inference is the hot path, so it goes past FastAPI's middleware, validation and serialisation; every
other route is an ordinary one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.protocols.spans import HEADER_BYTES
from inferbench_tasks.protocols.traceparent import HEADER_BYTES as TRACEPARENT
from inferbench_tasks.protocols.tracestate import HEADER_BYTES as TRACESTATE
from inferbench_tasks.servers.codec import HEADER_LENGTH, decode_request, encode_response
from inferbench_tasks.servers.model import ServedModel
from inferbench_tasks.servers.shared_memory_routes import add_routes

log = logging.getLogger(__name__)

SERVER_NAME = "inferbench"
QUEUE, INFERENCE, PREPROCESS, POSTPROCESS = HEADER_BYTES
EXTENSIONS = ["binary_tensor_data", "statistics"]
#: Larger JSON bodies are read in a thread, so that they don't hold up everyone else's requests.
INLINE_JSON_BYTES = 64 * 1024


class InferenceApp(FastAPI):
    """The app of one served model."""

    def __init__(self, model: ServedModel, version: str, secret: str = "") -> None:
        """``secret``: without it in ``Authorization: Bearer`` nobody is answered; "": everybody is."""
        super().__init__(title="InferBench inference server", version=version, docs_url=None, redoc_url=None)
        self._bearer = f"Bearer {secret}".encode() if secret else b""
        self.model = model
        name = model.name
        self._hot = {f"/v2/models/{name}/infer", f"/v2/models/{name}/versions/{model.version}/infer"}
        self.add_exception_handler(HTTPException, _http_error)
        self.add_exception_handler(RequestProblem, _problem)
        _add_routes(self, model, version)
        add_routes(self, model.regions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Inference takes the short way, everything else FastAPI's."""
        if self._bearer and scope["type"] == "http" and not self._knows(scope):
            await _refuse_stranger(send)
            return
        if scope["type"] == "http" and scope["path"] in self._hot and scope["method"] == "POST":
            await self._infer(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        """Whether the request has the secret."""
        for key, value in scope["headers"]:
            if key == b"authorization":
                return hmac.compare_digest(value, self._bearer)
        return False

    async def _infer(self, scope: Scope, receive: Receive, send: Send) -> None:
        recorder = self.model.recorder
        begun = recorder.begin() if recorder is not None else None
        started_ns = time.monotonic_ns()
        status = 200
        headers: list[tuple[bytes, bytes]]
        try:
            body, header_length = await self._read(scope, receive)
            received_ns = time.monotonic_ns()
            if header_length is None and len(body) > INLINE_JSON_BYTES:
                request = await asyncio.to_thread(
                    decode_request, body, None, self.model.signature, self.model.regions
                )
            else:
                request = decode_request(body, header_length, self.model.signature, self.model.regions)
            decoded_ns = time.monotonic_ns()
            execution = await self.model.execute(request.arrays, request.batch_size)
            if execution.error is not None:
                raise execution.error
            assert execution.outputs is not None
            resumed_ns = time.monotonic_ns()
            parts, json_length = encode_response(
                self.model.name, self.model.version, request, execution.outputs, self.model.signature
            )
            encoded_ns = time.monotonic_ns()
            if recorder is not None:
                # Most of a load's requests carry none, and each of them is looked at: no more than this.
                values = [value for key, value in scope["headers"] if key == TRACEPARENT]
                if values:
                    states = [value for key, value in scope["headers"] if key == TRACESTATE]
                    moments = (started_ns, received_ns, decoded_ns, resumed_ns, encoded_ns)
                    recorder.request(values, moments, execution, states, begun)
            preprocess_ns = decoded_ns - received_ns + execution.prepared_ns
            postprocess_ns = encoded_ns - resumed_ns + execution.finished_ns
            headers = [
                (QUEUE, b"%d" % execution.queue_ns),
                (INFERENCE, b"%d" % execution.infer_ns),
                (PREPROCESS, b"%d" % preprocess_ns),
                (POSTPROCESS, b"%d" % postprocess_ns),
            ]
            if json_length is None:
                headers.append((b"content-type", b"application/json"))
            else:
                headers.append((b"content-type", b"application/octet-stream"))
                headers.append((HEADER_LENGTH.encode(), b"%d" % json_length))
        except RequestProblem as problem:
            status, headers, parts = problem.status, [_JSON], [_error(str(problem))]
            if status == 413:
                await _linger(receive)
                headers.append((b"connection", b"close"))
            self.model.statistics.failed(time.monotonic_ns() - started_ns)
        except Exception as error:  # noqa: BLE001 - the border of a request: a runtime's failure is its answer
            status, headers, parts = (
                500,
                [_JSON],
                [_error(f"inference failed: {type(error).__name__}: {error}")],
            )
        body_out = parts[0] if len(parts) == 1 else b"".join(parts)
        headers.append((b"content-length", b"%d" % len(body_out)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body_out})

    async def _read(self, scope: Scope, receive: Receive) -> tuple[bytes, int | None]:
        """The body, and the length of its JSON part if the client gave one."""
        limit = self.model.config.max_request_bytes
        header_length: int | None = None
        for key, value in scope["headers"]:
            if key == b"content-length" and int(value) > limit:
                raise RequestProblem(
                    f"body: {int(value)} bytes given, at most {limit} are allowed", status=413
                )
            if key == b"inference-header-content-length":
                if not value.isdigit():
                    raise RequestProblem("Inference-Header-Content-Length: a number is needed")
                header_length = int(value)
            elif key == b"content-encoding" and value != b"identity":
                raise RequestProblem("Content-Encoding: compressed bodies are not accepted", status=415)
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            chunks, size = [body], len(body)
            while message.get("more_body") and size <= limit:
                message = await receive()
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
            body = b"".join(chunks)
        if len(body) > limit:  # chunked: no Content-Length told it
            raise RequestProblem(f"body: more than {limit} bytes", status=413)
        if message["type"] == "http.disconnect":
            raise RequestProblem("body: the client went away", status=499)
        return body, header_length


async def _refuse_stranger(send: Send) -> None:
    """Nothing of the server is told, and nothing that was sent is read."""
    headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


_LINGER_S = 1.0


async def _linger(receive: Receive) -> None:
    """Drop what a client still sends of a refused body, for at most a second.

    Closing at once would reset the connection, and the client would see a broken pipe in place of the reason.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while (message := await receive()).get("more_body"):
                del message


_JSON = (b"content-type", b"application/json")


def _error(text: str) -> bytes:
    return orjson.dumps({"error": text})


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, status_code=error.status_code)


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestProblem)
    return JSONResponse({"error": str(error)}, status_code=error.status)


def _add_routes(app: FastAPI, model: ServedModel, version: str) -> None:
    def check(name: str, model_version: str | None = None) -> None:
        if name != model.name or model_version not in (None, model.version):
            requested = name if model_version is None else f"{name}, version {model_version}"
            raise RequestProblem(
                f"model: {requested} is not served here; known: {model.name}, version {model.version}",
                status=404,
            )

    def ready(is_ready: bool) -> Response:
        return Response(status_code=200 if is_ready else 503)

    @app.get("/v2")
    async def server_metadata() -> dict[str, Any]:
        return {
            "name": SERVER_NAME,
            "version": version,
            "extensions": [*EXTENSIONS, *model.regions.extensions],
        }

    @app.get("/v2/health/live")
    async def live() -> Response:
        return ready(True)

    @app.get("/v2/health/ready")
    async def server_ready() -> Response:
        return ready(model.ready)

    @app.get("/v2/models/stats")
    async def all_statistics() -> dict[str, Any]:
        return {"model_stats": [model.statistics.document(model.name, model.version)]}

    @app.post("/v2/repository/index")
    async def index() -> Response:
        state = "READY" if model.ready else "UNAVAILABLE"
        return JSONResponse([{"name": model.name, "version": model.version, "state": state, "reason": ""}])

    @app.get("/metrics")
    async def metrics() -> Response:
        from inferbench_tasks.servers.prometheus import exposition

        content_type, text = exposition(model)
        return Response(text, media_type=content_type)

    for prefix in ("/v2/models/{name}", "/v2/models/{name}/versions/{model_version}"):

        @app.get(prefix)
        async def model_metadata(name: str, model_version: str | None = None) -> dict[str, Any]:
            check(name, model_version)
            return model.metadata()

        @app.get(f"{prefix}/ready")
        async def model_ready(name: str, model_version: str | None = None) -> Response:
            check(name, model_version)
            return ready(model.ready)

        @app.get(f"{prefix}/stats")
        async def statistics(name: str, model_version: str | None = None) -> dict[str, Any]:
            check(name, model_version)
            return {"model_stats": [model.statistics.document(model.name, model.version)]}

        @app.get(f"{prefix}/config")
        async def configuration(name: str, model_version: str | None = None) -> dict[str, Any]:
            check(name, model_version)
            return {
                "name": model.name,
                **model.config.model_dump(mode="json", exclude={"model_name", "shared_memory"}),
            }

        @app.post(f"{prefix}/infer")
        async def unknown(name: str, model_version: str | None = None) -> None:
            check(name, model_version)
