"""A request that can't be answered, as the client is told about it."""

from __future__ import annotations


class RequestProblem(Exception):
    """``status`` is the HTTP status; the text names the field that is wrong."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
