"""What PerfDB holds of a training run."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.perfdb.documents import DeviceInfo, Document, Extension, ResultBase


class EngineInfo(Document):
    """What trained: torchrun, with the exchange of gradients (None of one process) and torch's version."""

    kind: str
    backend: str | None = None
    strategy: str
    processes: int
    threads: int
    version: str | None = None


class NetworkInfo(Document):
    """The network as it was trained."""

    name: str
    parameters: int
    image_size: int


class TrainingSummary(Document):
    """Figures by timing, each None with its ``reason`` where it was not measured.

    ``synchronised``: step and phases of the epochs with instruments (``training.figures.of_timing``). ``bare``:
    samples/s of those without (``training.figures.bare``). ``loss``: means of the first and last epoch.
    """

    synchronised: dict[str, Any]
    bare: dict[str, Any]
    loss: dict[str, Any]
    loader: dict[str, Any] = {}


class TrainingResult(ResultBase):
    """The result of a training job; ``samples`` are the raw steps."""

    collection: ClassVar[str] = "trainings"

    benchmark: str | None = None
    model: NetworkInfo | None = None
    data: Extension = {}
    loader: Extension = {}
    device: DeviceInfo | None = None
    engine: EngineInfo | None = None
    summary: TrainingSummary | None = None
    certificate: Extension = {}
