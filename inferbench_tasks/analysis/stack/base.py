"""An across-stack analysis: a table, and one sentence that says what it shows (XSP, C. Li et al., arXiv 1908.06869)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.profile import Profile
from inferbench_tasks.registry import Registry

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """A valid run of the same model and stack at a batch size. ``latency_ms``: None of a load that is there at once:
    a request waits for all before it."""

    run_id: str
    batch_size: int
    throughput_sps: float
    latency_ms: float | None


@dataclass(frozen=True)
class Subject:
    """What is known of one model on one stack: its profile, runs of it at several batch sizes, what its layers ran."""

    profile: Profile
    points: Sequence[Point] = ()
    kernels: Kernels | None = None


class Analysis(ABC):
    """One of XSP's: its ``number`` there. ``name`` is for commands and files, ``formula`` for readers of the table."""

    number: ClassVar[int]
    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]

    def missing(self, subject: Subject) -> str | None:
        """What there is not, and what helps; None where there is all that it takes."""
        return None

    @abstractmethod
    def rows(self, subject: Subject) -> Rows:
        """The table."""

    # What follows is of the table, which is made once.
    @abstractmethod
    def sentence(self, subject: Subject, rows: Rows) -> str:
        """What the table of the subject shows."""

    def figure(self, subject: Subject, rows: Rows) -> Chart | None:
        """The table as a picture; None where there is none."""
        return None


ANALYSES: Registry[type[Analysis]] = Registry(
    "analysis across the stack",
    "inferbench.stack_analyses",
    {
        "batch_sizes": "inferbench_tasks.analysis.stack.batch_sizes:BatchSizes",
        "layers": "inferbench_tasks.analysis.stack.layer_table:LayerTable",
        "layer_latency": "inferbench_tasks.analysis.stack.layer_latency:LayerLatency",
        "layer_memory": "inferbench_tasks.analysis.stack.layer_memory:LayerMemory",
        "types": "inferbench_tasks.analysis.stack.types:TypeDistribution",
        "type_latency": "inferbench_tasks.analysis.stack.type_latency:TypeLatency",
        "type_memory": "inferbench_tasks.analysis.stack.type_memory:TypeMemory",
        "kernels": "inferbench_tasks.analysis.stack.kernel_table:KernelTable",
        "kernel_roofline": "inferbench_tasks.analysis.stack.kernel_roofline:KernelRoofline",
        "kernels_by_name": "inferbench_tasks.analysis.stack.kernels_by_name:KernelsByName",
        "kernels_by_layer": "inferbench_tasks.analysis.stack.kernels_by_layer:KernelsByLayer",
        "kernel_metrics": "inferbench_tasks.analysis.stack.kernel_metrics:KernelMetrics",
        "kernel_share": "inferbench_tasks.analysis.stack.kernel_share:KernelShare",
        "layer_roofline": "inferbench_tasks.analysis.stack.layer_roofline:LayerRoofline",
        "kernels_by_model": "inferbench_tasks.analysis.stack.kernels_by_model:KernelsByModel",
    },
)


def share(part: float, whole: float) -> float | None:
    """None where there is no whole."""
    return part / whole if whole else None
