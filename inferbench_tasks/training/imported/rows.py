"""What an import holds: rows of tables, and logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.perfdb.documents import Document

Benchmark = Literal["train", "inference", "smooth_inference"]
#: A table's columns of times, in its order, and the phases that they are called by.
PHASES = ("loading", "processing", "forward", "backward")
#: BenchmarkJade's batch per device, where nothing says another.
USUAL_BATCH = 128
#: What rows of the same work have alike, beside their cluster, device, data and benchmark.
SAME_WORK = ("model", "precision", "batch_size", "image_size", "settings", "workers")
#: Fields that rows of earlier versions do not have, and Jade's do not fill.
NEWER = frozenset({"batch_size", "image_size", "settings"})
Seconds = Annotated[float, Field(ge=0)]


class TableRow(Document):
    """One row: mean seconds of a step's phases, None where the table has a dash. ``source``: file and line.

    ``cells``: the times as they were written: how many digits a figure has tells of slips of the pen. ``batch_size``:
    per device, ``image_size``: side, pixels, ``settings``: others that are not the usual ones (``threads 2``); as the
    heading says them, which BenchmarkJade's own tables do not.
    """

    source: str
    model: str | None = None
    precision: str | None = None
    cluster: str
    data: str
    benchmark: Benchmark
    device: str
    devices: Annotated[int, Field(ge=1)]
    workers: Annotated[int, Field(ge=0)]
    loading_s: Seconds | None = None
    processing_s: Seconds | None = None
    forward_s: Seconds | None = None
    backward_s: Seconds | None = None
    cells: dict[str, str] = {}
    batch_size: Annotated[int, Field(ge=1)] | None = None
    image_size: Annotated[int, Field(ge=1)] | None = None
    settings: tuple[str, ...] = ()

    def time_s(self, phase: str) -> float | None:
        """The time of a phase of ``PHASES``, seconds."""
        value: float | None = getattr(self, f"{phase}_s")
        return value

    @property
    def step_s(self) -> float:
        """The sum of its columns."""
        return sum(self.time_s(phase) or 0.0 for phase in PHASES)

    @property
    def label(self) -> str:
        """How sentences name it."""
        words = self.benchmark.replace("_", " ")
        return f"{self.cluster}, {self.data}, {words}, {self.devices} x {self.device}"


class Log(Document):
    """One job's log. ``usual_workers``: loader processes that torch holds to be sensible, of its warning: as many as
    the process has cores. ``loader_workers``: those that it made; both None without the warning.
    """

    source: str
    benchmark: Benchmark
    data: str
    model: str | None = None
    precision: str | None = None
    strategy: str | None = None
    batch_size: int
    workers: int
    device: str
    devices: int
    loading_s: Seconds
    processing_s: Seconds
    forward_s: Seconds
    backward_s: Seconds
    epoch_s: Seconds | None = None
    cores_physical: int | None = None
    cores_logical: int | None = None
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    usual_workers: int | None = None
    loader_workers: int | None = None

    @property
    def started_workers(self) -> int:
        """Loader processes of each rank that work: none in smooth inference, which iterates over the data itself."""
        return 0 if self.benchmark == "smooth_inference" else self.workers

    @property
    def processes(self) -> int:
        """Ranks and their loader processes."""
        return self.devices * (1 + self.started_workers)

    def time_s(self, phase: str) -> float:
        """The time of a phase of ``PHASES``, seconds; 0 of one that its benchmark does not have."""
        value: float = getattr(self, f"{phase}_s")
        return value

    @property
    def step_s(self) -> float:
        """The sum of its phases."""
        return self.loading_s + self.processing_s + self.forward_s + self.backward_s


class Import(Document):
    """Everything that was imported together."""

    rows: list[TableRow] = []
    logs: list[Log] = []

    def as_json(self) -> str:
        """What its id is made of: the same for the same files, whichever version reads them."""
        newer = (
            NEWER if not any(row.batch_size or row.image_size or row.settings for row in self.rows) else ()
        )
        return self.model_dump_json(exclude={"rows": {"__all__": set(newer)}})

    @property
    def batch_size(self) -> int | None:
        """The batch per device of rows that state none: of the logs, BenchmarkJade's usual one without any; None where
        they differ."""
        sizes = {log.batch_size for log in self.logs} or {USUAL_BATCH}
        return sizes.pop() if len(sizes) == 1 else None
