"""What a rank is told to do, and what it answers: JSON files in the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from inferbench_tasks.training.job import TrainingJob

#: Names below the run's folder.
FOLDER, ORDER_FILE, PROGRESS_FILE = "training", "order.json", "progress.json"
EpochKind = Literal["synchronised", "bare"]


class Order(BaseModel):
    """``images_path``: ``n x channels x side x side`` float32, ``labels_path``: ``n`` int64 (npy, memory-mapped)."""

    model_config = ConfigDict(extra="forbid")

    job: TrainingJob
    images_path: str
    labels_path: str

    @classmethod
    def read(cls, path: Path) -> Order:
        """As it was written."""
        return cls.model_validate_json(path.read_text())


class Epoch(BaseModel):
    """One epoch of one rank. Times are CLOCK_MONOTONIC, ns.

    ``started_ns`` to ``ready_ns``: the loader's processes are started. ``window_*``: from the first whole step after
    the warm-up to the end of the last whole one; None without such steps. ``columns``, ``rows``: see ``phases``; of
    an epoch with instruments only. ``losses``: of each step in turn, None where it is not a finite number.
    ``loader_cpu_s``, ``loader_wait_s``: CPU time and wait for a core of the loader's processes within the window.
    """

    model_config = ConfigDict(extra="forbid")

    kind: EpochKind
    round: int
    started_ns: int
    ready_ns: int
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    window_samples: int = 0
    columns: list[str] = []
    rows: list[list[int | None]] = []
    losses: list[float | None] = []
    loader_cpu_s: float | None = None
    loader_wait_s: float | None = None


class Answer(BaseModel):
    """What a rank did. ``parameters``: sum and sum of squares of all weights at the end, for comparison of ranks."""

    model_config = ConfigDict(extra="forbid")

    rank: int
    world: int
    pid: int
    epochs: list[Epoch]
    parameters: list[float | None]
    parameter_count: int
    device: str
    versions: dict[str, Any] = {}


def answer_path(folder: Path, rank: int) -> Path:
    """Where a rank writes its answer, whole or not at all."""
    return folder / f"rank-{rank}.json"
