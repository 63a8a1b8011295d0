"""What comes out of it."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.perfdb.documents import ResultBase


class ApartResult(ResultBase):
    """``homes`` and ``devices`` of the stages in their order; ``read``: what came back from the other host."""

    collection: ClassVar[str] = "apart_results"

    homes: tuple[str, ...] = ()
    read: str | None = None
    devices: tuple[tuple[str, ...], ...] = ()
