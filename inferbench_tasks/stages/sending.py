"""Part of ``evaluate`` and ``trace``: requests of their own, all of which have to be sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.plan import LoadPlan

#: How a load goes: seconds since its start, those that were planned, and what is seen of it.
Progress = Callable[[float, float, Snapshot | None], None]


def emptied(folder: Path) -> Path:
    """The folder with nothing in it: a life of the run that was killed may have left something."""
    if folder.exists():
        rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def untold(elapsed_s: float, total_s: float, snapshot: Snapshot | None) -> None:
    """Tell nobody how a load goes."""


def applied(
    plan: LoadPlan,
    samples_path: Path,
    what: str,
    cancelled: Callable[[], bool],
    progress: Progress = untold,
) -> Outcome:
    """The plan's load, applied; ``what`` it sends, for people. CancelledError; LoadError where it could not go on."""
    outcome = apply_load(plan, samples_path, progress=progress, cancelled=cancelled)
    if outcome.applied.cancelled:
        raise CancelledError(f"Cancelled while {what} were sent")
    if outcome.applied.problem:
        raise LoadError(f"{what[0].upper()}{what[1:]} could not be sent: {outcome.applied.problem}")
    return outcome
