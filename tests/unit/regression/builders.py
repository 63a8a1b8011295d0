"""Sessions with noise and shifts that are known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from inferbench_tasks.regression.base import SeriesKey, Session

START = datetime(2026, 1, 1, tzinfo=UTC)
P50 = SeriesKey("quick", "ab" * 32, "cpu", "p50_ms")
RATE = SeriesKey("quick", "ab" * 32, "cpu", "throughput_rps")


def nights(
    shifts: Sequence[float], *, noise: float = 0.01, pairs: int = 8, seed: int = 1, baseline_id: str = "a"
) -> list[Session]:
    """A session per entry: the candidate's figures are that share above the baseline's 10 ms."""
    rng = np.random.default_rng(seed)
    return [
        Session(
            f"night-{i:03d}",
            START + timedelta(days=i),
            tuple(10 * np.exp(rng.normal(0, noise, pairs))),
            tuple(10 * (1 + shift) * np.exp(rng.normal(0, noise, pairs))),
            baseline_id,
        )
        for i, shift in enumerate(shifts)
    ]
