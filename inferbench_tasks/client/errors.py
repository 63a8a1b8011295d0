"""What a call can fail with, beside InputError and SubmissionError (what was asked is wrong)."""

from __future__ import annotations

from typing import Any

import httpx

from inferbench_tasks.errors import InferBenchError, InputError, SubmissionError
from inferbench_tasks.problem import Problem


class ApiError(InferBenchError):
    """The server could not answer; ``status`` is HTTP's, 0 if it was not reached."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class AccessError(ApiError):
    """The login is wrong (401), or may not do that (403)."""


def raise_for(answer: httpx.Response) -> None:
    """Raise what an answer that is not a success stands for."""
    if answer.is_success:
        return
    detail = _detail(answer)
    if answer.status_code == 422 and isinstance(detail, list):
        if any(entry.get("type") == "submission" for entry in detail):
            raise SubmissionError(_problem(entry) for entry in detail)
        raise InputError("\n".join(": ".join(filter(None, (_field(e), str(e.get("msg"))))) for e in detail))
    text = f"{answer.request.method} {answer.request.url.path}: {answer.status_code}: {detail}"
    if answer.status_code in (401, 403):
        raise AccessError(text, answer.status_code)
    if answer.status_code == 404:
        raise InputError(str(detail))
    raise ApiError(text, answer.status_code)


def _detail(answer: httpx.Response) -> Any:
    try:
        body = answer.json()
    except ValueError:
        return answer.text[:500]
    return body.get("detail", body) if isinstance(body, dict) else body


def _field(entry: dict[str, Any]) -> str:
    return ".".join(str(part) for part in entry.get("loc", [])[1:])


def _problem(entry: dict[str, Any]) -> Problem:
    field = _field(entry)
    return Problem(
        "submission", entry.get("line"), "" if field == "submission" else field, str(entry.get("msg"))
    )
