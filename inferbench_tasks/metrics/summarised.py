"""Metrics that the load's summary and the monitors hold already."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from inferbench_tasks.metrics.base import Measured, Metric


class _Summarised(Metric):
    def compute(self, measured: Measured) -> Any:
        """The value at ``path``."""
        value: Any = measured.summary
        for part in self.path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value


class Latency(_Summarised):
    """Waiting of a request: from the moment it was meant to be sent."""

    tag: ClassVar[str] = "e2e_latency_ms"
    unit: ClassVar[str] = "ms"
    formula: ClassVar[str] = (
        "done_ns - intended_ns of good answers; percentiles exact (inverted_cdf), None below their floor"
    )
    path: ClassVar[str] = "e2e_latency_ms"


class Throughput(_Summarised):
    """Work done."""

    tag: ClassVar[str] = "throughput_rps"
    unit: ClassVar[str] = "requests/s"
    formula: ClassVar[str] = "good answers that arrived in the window / its length"
    path: ClassVar[str] = "throughput_rps"
    better: ClassVar[Literal["lower", "higher"] | None] = "higher"


class Goodput(_Summarised):
    """Work done in time."""

    tag: ClassVar[str] = "goodput_rps"
    unit: ClassVar[str] = "requests/s"
    formula: ClassVar[str] = (
        "those of them within the SLO's bound of its highest percentile / length of the window"
    )
    path: ClassVar[str] = "goodput_rps"
    better: ClassVar[Literal["lower", "higher"] | None] = "higher"


class Errors(_Summarised):
    """Requests without a good answer."""

    tag: ClassVar[str] = "error_ratio"
    unit: ClassVar[str] = "1"
    formula: ClassVar[str] = "failed requests of the window / its requests"
    path: ClassVar[str] = "error_ratio"


class SloAttainment(_Summarised):
    """Whether the objective was kept."""

    tag: ClassVar[str] = "slo"
    unit: ClassVar[str] = "-"
    formula: ClassVar[str] = "each bound against its value; met = all, None where a value is missing"
    path: ClassVar[str] = "slo"
    better: ClassVar[Literal["lower", "higher"] | None] = None


class Cpu(_Summarised):
    """CPU of the server's process group."""

    tag: ClassVar[str] = "cpu_cores"
    unit: ClassVar[str] = "cores"
    formula: ClassVar[str] = "growth of the processes' CPU clocks over the window / its length"
    path: ClassVar[str] = "resources.server.cpu_cores.mean"


class Memory(_Summarised):
    """Memory of the server's process group."""

    tag: ClassVar[str] = "rss_bytes"
    unit: ClassVar[str] = "bytes"
    formula: ClassVar[str] = "largest sum of RSS over the processes in the window; shared pages count in each"
    path: ClassVar[str] = "resources.server.rss_bytes.max"
