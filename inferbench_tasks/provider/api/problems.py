"""Errors as answers: 4xx with the field at fault, in the form of FastAPI's own validation errors."""

from __future__ import annotations

import logging
from math import ceil
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from inferbench_tasks.errors import InferBenchError, InputError, PerfDBError, StorageError, SubmissionError
from inferbench_tasks.provider.navigation import PAGES
from inferbench_tasks.provider.submit.quota import QuotaError
from inferbench_tasks.provider.ui.render import page

#: Of an answer to bad input.
_MAX_PROBLEMS, _MAX_CHARACTERS = 100, 300
#: The list that a page of one belongs to, where its name is not the page's with an s.
_LISTS = {"report": "runs"}

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


def for_a_person(request: Request) -> bool:
    """Whether a browser asks for a page; REST has its form whatever is accepted."""
    path = str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")))
    return (
        request.method == "GET"
        and not path.startswith(("/api/", "/static/"))
        and "text/html" in request.headers.get("accept", "")
    )


def answer(request: Request, status: int, detail: Any, headers: dict[str, str] | None = None) -> Response:
    """``{"detail": ...}``, or a page for a person: what is wrong, what is allowed, and a way back."""
    if not for_a_person(request):
        return JSONResponse({"detail": detail}, status_code=status, headers=headers)
    path = str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")))
    name = path.strip("/").partition("/")[0]
    back = next((of for of in (name, f"{name}s", _LISTS.get(name, "")) if of in PAGES), "home")
    problems = [detail] if isinstance(detail, str) else [_in_words(request, problem) for problem in detail]
    made = page(
        "problem.html",
        status=status,
        here=back,
        problems=problems,
        title={401: "Log in first", 403: "Not yours", 404: "There is no such page"}.get(
            status, "This can't be shown"
        ),
        login=status == 401,
        back=back,
    )
    made.headers.update(headers or {})
    return made


def _in_words(request: Request, problem: dict[str, Any]) -> str:
    """A problem of a parameter, with what was given."""
    field = str(problem["loc"][-1]) if problem["loc"] else ""
    given = str(request.query_params.get(field, ""))[:_MAX_CHARACTERS]
    return f"{field}={given}: {problem['msg']}" if given else ": ".join(filter(None, (field, problem["msg"])))


def install(app: FastAPI) -> None:
    """Answer our errors: 429 a quota is used up, 422 bad input, 503 the store is away, 500 anything else of ours; and
    those of the routes. A browser is answered by a page.
    """

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Request, error: AnyHTTPException) -> Response:
        what = error.detail
        if error.status_code == 404 and what == "Not Found" and for_a_person(request):
            what = f"There is no page {request.scope['path'][:_MAX_CHARACTERS]}; those that there are stand above."
        return answer(request, error.status_code, what, dict(error.headers or {}))

    @app.exception_handler(QuotaError)
    async def too_much(request: Request, error: QuotaError) -> Response:
        return answer(request, 429, str(error), {"Retry-After": str(ceil(error.retry_s))})

    @app.exception_handler(InputError)
    async def bad_input(request: Request, error: InputError) -> Response:
        return answer(request, 422, detail(error))

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> Response:
        # FastAPI's own answer quotes the input, which may be no text, no number of JSON's, or deeper than the stack.
        problems = [
            {
                "loc": [_plain(part) for part in problem["loc"]],
                "msg": _plain(problem["msg"]),
                "type": problem["type"],
            }
            for problem in error.errors()[:_MAX_PROBLEMS]
        ]
        return answer(request, 422, problems)

    @app.exception_handler(PerfDBError)
    @app.exception_handler(StorageError)
    async def away(request: Request, error: InferBenchError) -> Response:
        log.error("store is away path=%s error=%s", request.url.path, error)
        return answer(request, 503, str(error))

    @app.exception_handler(InferBenchError)
    async def ours(request: Request, error: InferBenchError) -> Response:
        log.error("failed path=%s error=%s", request.url.path, error)
        return answer(request, 500, str(error))
