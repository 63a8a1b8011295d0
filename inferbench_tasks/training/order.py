"""What a rank is told to do, and what it answers: JSON files in the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from inferbench_tasks.errors import StageError
from inferbench_tasks.strangers_folder import read
from inferbench_tasks.training.job import EpochKind, TrainingJob

#: Names below the run's folder.
FOLDER, ORDER_FILE, PROGRESS_FILE = "training", "order.json", "progress.json"
IMAGES_FILE, IMAGES_FOLDER, LABELS_FILE = "images.npy", "images", "labels.npy"
LISTING_FILE, MODULE_FOLDER = "files.json", "module"
#: Of a rank's answer, which has a row for each step: some hundred bytes.
_MOST_ANSWER_BYTES = 2 << 30


class Order(BaseModel):
    """``images_path``: ``n x shape`` as the network takes it (npy), of JPEG files their folder,
    of the user's a list of their names below ``files_folder``, ``files_sha256`` of that list; ``labels_path``: ``n``
    int64 (npy), in the order of the files' paths. ``cores``: those that each rank is pinned to, by rank; empty where
    the job holds no devices, or one, to which its worker is pinned, and for ranks of another host. ``module_folder``:
    the copy of the user's module.
    """

    model_config = ConfigDict(extra="forbid")

    job: TrainingJob
    images_path: str
    labels_path: str
    cores: tuple[tuple[int, ...], ...] = ()
    module_folder: str | None = None
    files_folder: str | None = None
    files_sha256: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files and folders that every rank reads, beside the user's images."""
        return tuple(filter(None, (self.images_path, self.labels_path, self.module_folder)))

    @classmethod
    def read(cls, path: Path) -> Order:
        """As it was written; ranks may write in its folder. OSError where something else stands in its place."""
        return cls.model_validate_json(read(path, within=path.parent.parent))


class MemoryGrown(BaseModel):
    """What the want of memory cost within an epoch's window, see ``monitors.memory_stalls``: of the rank with its
    loader's processes the faults, of its cgroup or the machine (``scope``) the rest. None where nothing is told.
    """

    model_config = ConfigDict(extra="forbid")

    major_faults: int
    stalled_s: float | None = None
    scope: str | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None


class Epoch(BaseModel):
    """One epoch of one rank. Times are CLOCK_MONOTONIC, ns.

    ``started_ns`` to ``ready_ns``: the loader's processes are started. ``window_*``: from the first whole step after
    the warm-up to the end of the last whole one; None without such steps. ``ended_ns``: when all ranks were through.
    ``columns``, ``rows``: see ``phases`` and ``jade``; of an epoch with instruments only. ``losses``: of each step in
    turn, None where it is not a finite number. ``loader_cpu_s``, ``loader_wait_s``: CPU time and wait for a core of the
    loader's processes within the window. ``cpu_s``, ``wait_s``: those of the rank's own process, all threads;
    ``longest_wait_s``: of that thread which waited longest in sum. Each is None where the kernel tells none.
    ``resident_ratio``: of an epoch that reads files, which share of them was in memory at its start. ``repeated``: how
    many samples all ranks together took more than once, see ``training.taken``.
    """

    model_config = ConfigDict(extra="forbid")

    kind: EpochKind
    round: int
    started_ns: int
    ready_ns: int
    ended_ns: int | None = None
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    window_samples: int = 0
    columns: list[str] = []
    rows: list[list[int | None]] = []
    losses: list[float | None] = []
    resident_ratio: float | None = None
    repeated: int | None = None
    loader_cpu_s: float | None = None
    loader_wait_s: float | None = None
    cpu_s: float | None = None
    wait_s: float | None = None
    longest_wait_s: float | None = None
    memory: MemoryGrown | None = None


class Answer(BaseModel):
    """What a rank did. ``parameters``: sum and sum of squares of all weights at the end, for comparison of ranks.
    ``probes``: see ``training.probes``. ``memory_limit_bytes``: of its cgroup, which who collects may not be in; None
    without a limit.
    """

    model_config = ConfigDict(extra="forbid")

    rank: int
    world: int
    pid: int
    epochs: list[Epoch]
    parameters: list[float | None]
    parameter_count: int
    device: str
    versions: dict[str, Any] = {}
    probes: dict[str, float | None] = {}
    memory_limit_bytes: int | None = None

    @classmethod
    def read(cls, path: Path) -> Answer:
        """As its rank wrote it, who may put anything in its place. StageError for what is no plain file."""
        try:
            return cls.model_validate_json(read(path, _MOST_ANSWER_BYTES, within=path.parent.parent))
        except OSError as error:
            raise StageError(f"What a rank wrote can't be read: {path}: {error.strerror}") from error


def answer_path(folder: Path, rank: int) -> Path:
    """Where a rank writes its answer, whole or not at all."""
    return folder / f"rank-{rank}.json"
