"""A metric: its tag, unit and formula, and how it is got from one run's measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from inferbench_tasks.contracts.device import CPU, DeviceSpec
from inferbench_tasks.registry import Registry

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.window import Window
    from inferbench_tasks.monitors.records import Recording


@dataclass(frozen=True)
class Measured:
    """What a run measured, for metrics: the records of the window, the monitors, the machine.

    ``summary``: ``loadgen.summary.summarise``'s figures with ``resources``; ``hardware``: ``environment.hardware``.
    """

    window: Window
    recording: Recording
    summary: dict[str, Any]
    hardware: dict[str, Any]
    device: DeviceSpec = CPU
    #: Where the server wrote down the moments of some requests (``metrics.triton_trace``), if it did.
    trace_path: str | None = None

    @property
    def requests(self) -> int:
        """Good answers that arrived within the window: what its energy and money were spent on."""
        return int(self.window.completed.sum())


class Metric(ABC):
    """``path``: where its value stands in the summary. ``better``: which way is better, None if neither."""

    tag: ClassVar[str]
    unit: ClassVar[str]
    formula: ClassVar[str]
    path: ClassVar[str]
    better: ClassVar[Literal["lower", "higher"] | None] = "lower"

    @abstractmethod
    def compute(self, measured: Measured) -> Any:
        """The value (a number, or a dict with a ``reason`` where it is None), as plain JSON values."""


METRICS: Registry[type[Metric]] = Registry(
    "metric",
    "inferbench.metrics",
    {
        "latency": "inferbench_tasks.metrics.summarised:Latency",
        "throughput": "inferbench_tasks.metrics.summarised:Throughput",
        "goodput": "inferbench_tasks.metrics.summarised:Goodput",
        "errors": "inferbench_tasks.metrics.summarised:Errors",
        "slo": "inferbench_tasks.metrics.summarised:SloAttainment",
        "cpu": "inferbench_tasks.metrics.summarised:Cpu",
        "memory": "inferbench_tasks.metrics.summarised:Memory",
        "stages": "inferbench_tasks.metrics.stages:Stages",
        "energy": "inferbench_tasks.metrics.energy:Energy",
        "co2": "inferbench_tasks.metrics.carbon:Carbon",
        "cost": "inferbench_tasks.metrics.cost:Cost",
        "interference": "inferbench_tasks.metrics.interference:Interference",
    },
)
