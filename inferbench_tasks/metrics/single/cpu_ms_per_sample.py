"""CPU time of the server for one sample: by it servers that answer equally fast are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.metrics.base import Measured, Metric

_CORES, _RATE = "resources.server.cpu_cores.mean", "throughput_samples_per_s"


def cpu_ms_per_sample(summary: Mapping[str, Any]) -> float | None:
    """From a summary with the server's CPU, ms; None where its CPU was not watched or nothing was answered."""
    cores, rate = value_at(summary, _CORES), summary.get(_RATE)
    return float(cores) * 1e3 / rate if cores is not None and rate else None


class CpuMsPerSample(Metric):
    """Of the server's whole process group, whatever it does beside answering."""

    figure: ClassVar[Figure] = Figure(
        "cpu_ms_per_sample",
        "cpu_ms_per_sample",
        "ms/sample",
        "CPU of the server per sample",
        "lower",
        "CPU of the server's process group, cores x 1,000 / samples per second",
        noun="CPU",
        views=("sweep", "pareto"),
        after="cpu_cores",
        rate_free=True,
        interval="cpu_time.ci95.ms_per_sample",
        otherwise=cpu_ms_per_sample,
        follows_from=(_CORES, _RATE),
    )

    def compute(self, measured: Measured) -> float | None:
        """CPU time of the server per sample, ms, by ``cpu_ms_per_sample``."""
        return cpu_ms_per_sample(measured.summary)
