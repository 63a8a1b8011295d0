"""Jitter: users of a stream mind it more than a latency that is always the same."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from inferbench_tasks.figure import Figure
from inferbench_tasks.metrics.base import Measured, Metric


class Jitter(Metric):
    """The mean change of the latency from one request to the next (as of packets: RFC 3393)."""

    figure: ClassVar[Figure] = Figure(
        name="jitter_ms",
        path="jitter_ms",
        unit="ms",
        title="Jitter",
        better="lower",
        formula="mean |latency of a request - latency of the one before| of good answers, by intended moment",
        after="p999_ms",
        views=("report", "sweep", "board"),
    )

    def compute(self, measured: Measured) -> float | None:
        window = measured.window
        latency_ms = (window.done_ns - window.intended_ns)[window.answered] / 1e6
        return float(np.abs(np.diff(latency_ms)).mean()) if len(latency_ms) > 1 else None
