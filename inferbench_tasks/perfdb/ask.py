"""Questions to PerfDB by those who do not know whether there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from inferbench_tasks import settings
from inferbench_tasks.errors import PerfDBError, StorageError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB

T = TypeVar("T")


class Ask(Protocol):
    """Whom a question is put to."""

    def __call__(self, question: Callable[[PerfDB], Sequence[T]], /) -> Sequence[T]:
        """The answer; empty where there is no PerfDB, or it is away."""


@dataclass(frozen=True)
class AskNobody:
    """There is no PerfDB."""

    def __call__(self, question: Callable[[PerfDB], Sequence[T]], /) -> Sequence[T]:
        """Nothing."""
        return ()


@dataclass(frozen=True)
class AskThis:
    """One that is open."""

    db: PerfDB

    def __call__(self, question: Callable[[PerfDB], Sequence[T]], /) -> Sequence[T]:
        """What it says."""
        return question(self.db)


@dataclass(frozen=True)
class AskHere:
    """That of a data directory, or of ``INFERBENCH_PERFDB_URI``; none is started."""

    data_dir: Path

    def __call__(self, question: Callable[[PerfDB], Sequence[T]], /) -> Sequence[T]:
        """Opened for this question, if it runs."""
        if settings.perfdb_uri() is None and not embedded.status(self.data_dir)["running"]:
            return ()
        try:
            with PerfDB.connect(settings.perfdb_uri(), self.data_dir) as db:
                return question(db)
        except (PerfDBError, StorageError):
            return ()  # what it has is not known: the job waits, or meets it
