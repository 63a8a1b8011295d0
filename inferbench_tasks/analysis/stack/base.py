"""An across-stack analysis: a table, and one sentence that says what it shows (XSP, C. Li et al., arXiv 1908.06869)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from inferbench_tasks.analysis.stack.profile import Profile
from inferbench_tasks.registry import Registry

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """A valid run of the same model and stack at a batch size."""

    run_id: str
    batch_size: int
    throughput_sps: float
    latency_ms: float


@dataclass(frozen=True)
class Subject:
    """What is known of one model on one stack: its profile, and runs of it at several batch sizes."""

    profile: Profile
    points: Sequence[Point] = ()


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

    @abstractmethod
    def sentence(self, subject: Subject) -> str:
        """What it shows."""


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
    },
)


def analyses() -> list[Analysis]:
    """All of them, in XSP's order."""
    return sorted((ANALYSES.load(kind)() for kind in ANALYSES), key=lambda each: (each.number, each.name))


#: XSP's analyses that there is nothing for yet, and why.
NOT_THERE = {
    number: f"{name}: no source of the library level (kernels, primitives) is read yet, see `inferbench trace sources`"
    for number, name in (
        (8, "kernel table"), (9, "kernel roofline"), (10, "kernels by name"), (11, "kernels by layer"),
        (12, "kernel metrics by layer"), (13, "kernel against other time by layer"), (14, "layer roofline"),
        (15, "kernels by model"),
    )
}  # fmt: skip


def share(part: float, whole: float) -> float | None:
    """None where there is no whole."""
    return part / whole if whole else None
