"""Errors as answers: 4xx with the field at fault, in the form of FastAPI's own validation errors."""

from __future__ import annotations

import logging
from math import ceil
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from inferbench_tasks.errors import InferBenchError, InputError, PerfDBError, StorageError, SubmissionError
from inferbench_tasks.provider.submit.quota import QuotaError

#: Of an answer to bad input.
_MAX_PROBLEMS, _MAX_CHARACTERS = 100, 300

log = logging.getLogger(__name__)


class FieldError(InputError):
    """A parameter of a request is wrong; ``field`` names it and the text does not, for it stands beside the field."""

    def __init__(self, field: str, message: str, where: str = "query") -> None:
        super().__init__(message)
        self.field = field
        self.where = where


class blame:
    """Within this block an InputError is the fault of that query parameter."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InputError) and not isinstance(error, FieldError | SubmissionError):
            raise FieldError(self._field, str(error)) from error


def not_found(what: str) -> HTTPException:
    """An answer with status 404 that says what there is not."""
    return HTTPException(404, what)


def detail(error: InputError) -> list[dict[str, Any]]:
    """``[{loc, msg, type, line}]``, one per problem."""
    if isinstance(error, SubmissionError):
        return [
            {
                "loc": ["body", *([p.field] if p.field else ["submission"])],
                "msg": p.message,
                "type": "submission",
                "line": p.line,
            }
            for p in error.problems
        ]
    if isinstance(error, FieldError):
        return [{"loc": [error.where, error.field], "msg": str(error), "type": "value"}]
    return [{"loc": ["body", error.field] if error.field else [], "msg": str(error), "type": "value"}]


def _plain(part: Any) -> Any:
    """A part of a message as an answer can carry it: short, and UTF-8."""
    return (
        part[:_MAX_CHARACTERS].encode("utf-8", "backslashreplace").decode() if isinstance(part, str) else part
    )


def install(app: FastAPI) -> None:
    """Answer our errors: 429 a quota is used up, 422 bad input, 503 the store is away, 500 anything else of ours."""

    @app.exception_handler(QuotaError)
    async def too_much(request: Request, error: QuotaError) -> JSONResponse:
        return JSONResponse(
            {"detail": str(error)}, status_code=429, headers={"Retry-After": str(ceil(error.retry_s))}
        )

    @app.exception_handler(InputError)
    async def bad_input(request: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"detail": detail(error)}, status_code=422)

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        # FastAPI's own answer quotes the input, which may be no text, no number of JSON's, or deeper than the stack.
        problems = [
            {
                "loc": [_plain(part) for part in problem["loc"]],
                "msg": _plain(problem["msg"]),
                "type": problem["type"],
            }
            for problem in error.errors()[:_MAX_PROBLEMS]
        ]
        return JSONResponse({"detail": problems}, status_code=422)

    @app.exception_handler(PerfDBError)
    @app.exception_handler(StorageError)
    async def away(request: Request, error: InferBenchError) -> JSONResponse:
        log.error("store is away path=%s error=%s", request.url.path, error)
        return JSONResponse({"detail": str(error)}, status_code=503)

    @app.exception_handler(InferBenchError)
    async def ours(request: Request, error: InferBenchError) -> JSONResponse:
        log.error("failed path=%s error=%s", request.url.path, error)
        return JSONResponse({"detail": str(error)}, status_code=500)
