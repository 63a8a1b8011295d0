"""How near the quiet windows' percentiles are to those of the undisturbed load, over made-up timelines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.noise.timelines import LOADS, Load, Work, pauses, recording_of, window_of, work_of
from inferbench_tasks.loadgen.segmented import distribution
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.disturbances import disturbances
from inferbench_tasks.metrics.quiet import LEAST_TIME_RATIO
from inferbench_tasks.metrics.quiet_windows import quiet_windows

#: Percentile -> how far the quiet windows' may be from the undisturbed machine's.
ALLOWED = {"p50": 0.05, "p95": 0.10, "p99": 0.15}
_CORES = 2


@dataclass
class Outcome:
    """Of several runs: relative errors, and whether intervals hold the truth; nulls are counted."""

    runs: int = 0
    nulls: int = 0
    time_ratios: list[float] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in ALLOWED})
    holds: dict[str, list[bool]] = field(default_factory=lambda: {name: [] for name in ALLOWED})

    def judge(self, figures: dict[str, Any] | None, time_ratio: float, truth: dict[str, float]) -> None:
        """Add a run; ``figures``: percentiles of its quiet windows, None where all are null."""
        self.runs += 1
        self.time_ratios.append(time_ratio)
        if figures is None:
            self.nulls += 1
            return
        for name, value in truth.items():
            if figures[name] is not None:
                self.errors[name].append(figures[name] / value - 1)
            if figures["ci95"][name] is not None:
                low, high = figures["ci95"][name]
                self.holds[name].append(low <= value <= high)

    def add(self, other: Outcome) -> None:
        """Add all runs of another."""
        self.runs += other.runs
        self.nulls += other.nulls
        self.time_ratios += other.time_ratios
        for name in ALLOWED:
            self.errors[name] += other.errors[name]
            self.holds[name] += other.holds[name]

    def within(self, name: str) -> float:
        """The share of the values that are within what is allowed."""
        return (
            float(np.mean(np.abs(self.errors[name]) <= ALLOWED[name])) if self.errors[name] else float("nan")
        )


def truth_of(load: Load, requests: int = 2_000_000) -> dict[str, float]:
    """Percentiles of the undisturbed load, of so many requests: with fewer the truth itself is not known enough."""
    work = work_of(load, requests / load.rate_rps, np.random.default_rng(99))
    latencies_ms = _latencies_ms(window_of(work, np.empty((0, 2))))
    return {name: float(np.quantile(latencies_ms, float(name[1:]) / 100)) for name in ALLOWED}


def add_run(
    outcome: Outcome, load: Load, truth: dict[str, float], *, taken: float, length_s: float, seconds: float, seed: int,
    real: bool = True,
) -> None:  # fmt: skip
    """Simulate and cut; ``real=False``: the monitors see disturbances that take nothing from the server."""
    rng = np.random.default_rng([seed, LOADS.index(load)])
    work: Work = work_of(load, seconds, rng)
    stops = pauses(taken, length_s, seconds, rng)
    window = window_of(work, stops if real else np.empty((0, 2)))
    disturbed = disturbances(recording_of(work, stops), window.start_ns, window.end_ns, _CORES)
    assert disturbed is not None
    quiet = quiet_windows(window, disturbed)
    time_ratio = quiet.time_s(window) / window.duration_s
    enough = time_ratio >= LEAST_TIME_RATIO
    figures = distribution(quiet.requests(window, quiet.holds(window))) if enough else None
    outcome.judge(figures, time_ratio, truth)


def _latencies_ms(window: Window) -> np.ndarray:
    return (window.done_ns - window.intended_ns)[window.measured] / 1e6
