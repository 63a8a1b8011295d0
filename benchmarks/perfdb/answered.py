"""What the benchmarks here time has to be an answer: an error, or a page without what it shows, may be quick."""

from __future__ import annotations

from typing import Any


class NotAnswered(Exception):
    """Something else came than what was to be timed: in words. The benchmark has failed."""


def require_answered(path: str, answer: Any) -> None:
    """NotAnswered unless it is the page, or the data, that were asked for."""
    if answer.status_code != 200:
        raise NotAnswered(f"{path} answers with {answer.status_code}: {answer.text[:300]}")


def require_points(path: str, answer: Any) -> None:
    """NotAnswered where a picture has nothing to show."""
    if path.startswith("/api/points") and not answer.json()["rows"]:
        raise NotAnswered(f"{path} is a picture without points")


def require_light(path: str, total_bytes: int, most_bytes: int) -> None:
    """NotAnswered where it weighs more than it may."""
    if total_bytes > most_bytes:
        raise NotAnswered(f"{path} weighs {total_bytes:,} bytes, at most {most_bytes:,} may be")


def require_opened(url: str, answer: Any) -> None:
    """NotAnswered unless a browser got the page; ``answer``: of its navigation, None where there was none."""
    if answer is None or not answer.ok:
        raise NotAnswered(f"{url} answers with {answer.status if answer else 'nothing'}")


def failed(error: NotAnswered) -> str:
    """What is printed of it."""
    return f"{error}: FAILED"
