"""Figures of 200 requests/s with monitors that a test makes up."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.derive import derive
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records

EPYC = {"cpu": "AMD EPYC 7763 64-Core Processor", "cores_logical": 2, "cores_physical": 2, "gpus": []}
T4 = {"cpu": "x", "cores_logical": 4, "gpus": [{"name": "Tesla T4"}]}


def counter(per_s: float) -> Series:
    """A counter that grows evenly for 12 s."""
    return Series(np.arange(13) * SECOND, np.arange(13) * per_s)


def gauge(value: float) -> Series:
    """A gauge that stands still."""
    return Series(np.arange(13) * SECOND, np.full(13, value))


def watched(server: float = 0.05, others: float = 0.0) -> dict[tuple[str, str], Series]:
    """What any recording has: cores that the server, its load (0.05) and others used."""
    return {
        ("host", "cpu_busy_s_total"): counter(server + 0.05 + others),
        ("server", "cpu_s_total"): counter(server),
        ("client", "cpu_s_total"): counter(0.05),
    }


WATCHED = watched()


def measure(
    series: dict[tuple[str, str], Series],
    hardware: dict[str, Any] = EPYC,
    device: str = "cpu",
    batch_size: int = 1,
    latency_ms: Any = 5.0,
    **about: Any,
) -> dict[str, Any]:
    """All metrics of 200 requests/s with those monitors."""
    table = records(latency_ms, noise=0, batch_size=batch_size)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    summary = summarise(table, measure_start_ns=2 * SECOND, measure_end_ns=10 * SECOND)
    return derive(Measured(window, Recording(series, about), summary, hardware, DeviceSpec(device)))
