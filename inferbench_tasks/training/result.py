"""What PerfDB holds of a training run."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo, Document, Extension, ResultBase, RunDocument
from inferbench_tasks.perfdb.finalise import common_fields
from inferbench_tasks.training.job import has_loader


class EngineInfo(Document):
    """What trained: ``kind``, the trainer, with the exchange of gradients (None of one process); ``version`` is
    torch's, ``trainer_version`` that of the trainer's package.
    """

    kind: str
    backend: str | None = None
    strategy: str
    processes: int
    threads: int
    version: str | None = None
    trainer_version: str | None = None


class NetworkInfo(Document):
    """The network as it was trained; ``image_size`` None of one that takes no images."""

    name: str
    parameters: int
    image_size: int | None = None


class TrainingSummary(Document):
    """Figures by timing, each None with its ``reason`` where it was not measured.

    ``synchronised``: step and phases of the epochs with instruments (``training.figures.of_timing``). ``bare``:
    samples/s of those without (``training.figures.bare``). ``jade``: BenchmarkJade's columns (``training.jade``), None
    where they were not asked for. ``events``: by the device's own stamps (``training.figures.events``), likewise.
    ``loss``: means of the first and last epoch.
    ``spending``: energy, CO2 and money (``training.spending``). ``probes``: medians of the
    ranks', see ``training.probes``. ``memory``: what its want cost (``training.memory_figures``), None of results of
    before.
    """

    synchronised: dict[str, Any]
    bare: dict[str, Any]
    jade: dict[str, Any] | None = None
    events: dict[str, Any] | None = None
    loss: dict[str, Any]
    loader: dict[str, Any] = {}
    probes: dict[str, float | None] = {}
    spending: dict[str, Any] | None = None
    memory: dict[str, Any] | None = None


class TrainingResult(ResultBase):
    """The result of a training job; ``samples`` are the raw steps; ``cluster``: the name that its worker has."""

    collection: ClassVar[str] = "trainings"

    benchmark: str | None = None
    cluster: str | None = None
    model: NetworkInfo | None = None
    data: Extension = {}
    loader: Extension = {}
    device: DeviceInfo | None = None
    engine: EngineInfo | None = None
    summary: TrainingSummary | None = None
    certificate: Extension = {}

    @property
    def workers(self) -> int | None:
        """Loader processes of each rank that there were, however many were asked for; None where nothing is known of
        its loader, as of a run that failed.
        """
        if not self.loader:
            return None
        if not has_loader(self.benchmark, self.data.get("where")):
            return 0
        return int(self.loader.get("workers") or 0)


def host_names(result: TrainingResult) -> list[str]:
    """Of a run on two hosts both, the first one first; [] of one on one host."""
    return [str(host["host"]) for host in result.extensions.get("hosts") or []]


def has_figures(result: TrainingResult) -> bool:
    """Whether a run measured something, and was not lost on its way."""
    return result.summary is not None


def without_figures(run: RunDocument, verdict: Verdict) -> TrainingResult:
    """The result of a run that failed or was cancelled."""
    return TrainingResult.model_validate(common_fields(run, verdict))
