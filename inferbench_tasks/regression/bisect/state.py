"""What a bisection knows: which steps were compared, run by run, and what was decided. It lies on disk as JSON.

It is written after every run and after every decision: asked again, a bisection goes on where it was, measures nothing
twice, and never revises a decision that a comparison has ended with.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.problem import field_problems
from inferbench_tasks.regression.base import Session
from inferbench_tasks.submission.base import DEFAULT_KIND

SideName = Literal["baseline", "candidate"]
#: Of a comparison: the candidate differs from the baseline (it is bad), it does not, or it was not found out.
Decision = Literal["changed", "same", "undecided"]
Purpose = Literal["ends", "step", "culprit"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BisectRun(BaseModel):
    """One run of a comparison. ``figure``: None where it is not valid or did not measure the figure."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    side: SideName
    verdict: str
    figure: float | None = None
    stages_ms: dict[str, float] = {}


class Comparison(BaseModel):
    """Two steps in turns, by their places. ``runs`` in their order; ``purpose``: why it was begun."""

    model_config = ConfigDict(extra="forbid")

    purpose: Purpose
    baseline: int
    candidate: int
    runs: list[BisectRun] = []
    decision: Decision | None = None

    def values(self, side: SideName) -> list[float]:
        """The figure of each good run of a side, in order."""
        return [run.figure for run in self.runs if run.side == side and run.figure is not None]

    def pairs(self) -> int:
        return min(len(self.values("baseline")), len(self.values("candidate")))

    def blocks(self, size: int) -> list[Session]:
        """The pairs in blocks of ``size``; what does not fill one is left for later."""
        baseline, candidate = self.values("baseline"), self.values("candidate")
        starts = range(0, self.pairs() - size + 1, size)
        return [
            _block(tuple(baseline[start : start + size]), tuple(candidate[start : start + size]))
            for start in starts
        ]


@lru_cache(maxsize=4096)
def _block(baseline: tuple[float, ...], candidate: tuple[float, ...]) -> Session:
    """Kept, with the effect that it computes once: every look asks for all of them."""
    return Session("block", _EPOCH, baseline, candidate)


class Task(BaseModel):
    """What is asked. ``detect``: the smallest change of the ends that counts, ln ratio; ``error``: of the whole answer.

    ``steps``: their names, the good end first, the bad one last. ``what``: the submission's content, in short.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    of_kind: str = DEFAULT_KIND
    what: str
    figure: str
    job: int = 0
    steps: list[str]
    detect: float = math.log1p(0.03)
    error: float = 0.05
    #: Pairs between two looks, and the most of one comparison.
    block: int = 4
    most_pairs: int = 80


class BisectState(BaseModel):
    """``skipped``: place -> why it can't be measured. ``machine``: the device and its cores; all runs are of one."""

    model_config = ConfigDict(extra="forbid")

    task: Task
    machine: tuple[str, float | None] | None = None
    skipped: dict[int, str] = {}
    comparisons: list[Comparison] = []

    def of(self, purpose: Purpose) -> Comparison | None:
        """The first comparison that was begun for that."""
        return next((c for c in self.comparisons if c.purpose == purpose), None)

    def between(self, baseline: int, candidate: int) -> Comparison | None:
        """The comparison of these two steps."""
        return next((c for c in self.comparisons if (c.baseline, c.candidate) == (baseline, candidate)), None)


def load(path: Path, task: Task) -> BisectState:
    """The state in the file if it is of this task; a new one where there is no file.

    Raises InputError for a file of another task, or one that can't be read as a state.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return BisectState(task=task)
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    try:
        state = BisectState.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{path} is no state of a bisection: {field_problems(error)[0]}") from error
    if state.task != task:
        raise InputError(f"{path} is the state of another bisection; remove it to begin anew.")
    return state


def save(path: Path, state: BisectState) -> None:
    """Replace the file as a whole; raises StorageError."""
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "w", encoding="utf-8") as file:
            file.write(state.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
