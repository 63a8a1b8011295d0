"""Every open-loop kind with the law that its name promises: what the tests draw from and compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from inferbench_tasks.arrivals.base import ArrivalProcess, ArrivalsSpec

_ADAPTER: TypeAdapter[ArrivalProcess] = TypeAdapter(ArrivalsSpec)

Expected = Callable[[NDArray[np.float64], float], NDArray[np.float64]]


def spec(**parameters: Any) -> ArrivalProcess:
    """An arrival process as a submission's YAML would give it."""
    return _ADAPTER.validate_python(parameters)


@dataclass(frozen=True)
class Law:
    """``expected(t_s, duration_s)``: how many arrivals are expected before t, written down independently."""

    process: ArrivalProcess
    expected: Expected

    @property
    def kind(self) -> str:
        """For the test's name."""
        return self.process.kind


def _spike(t: NDArray[np.float64], duration_s: float) -> NDArray[np.float64]:
    return np.asarray(40 * t + (400 - 40) * np.clip(t - 20, 0, 15))


def _diurnal(t: NDArray[np.float64], duration_s: float) -> NDArray[np.float64]:
    omega, start = 2 * np.pi / 30, 2 * np.pi * 0.25
    return np.asarray(100 * t + 100 * 0.8 / omega * (np.cos(start) - np.cos(omega * t + start)))


#: Poisson processes, steady or not: uniform after a change of time by their expected arrivals.
POISSON = [
    Law(spec(kind="poisson", rate_rps=100), lambda t, d: 100 * t),
    Law(spec(kind="server", rate_rps=100), lambda t, d: 100 * t),
    Law(spec(kind="spike", base_rate_rps=40, spike_rate_rps=400, spike_at_s=20, spike_for_s=15), _spike),
    Law(spec(kind="ramp", start_rate_rps=0, end_rate_rps=200), lambda t, d: 100 * t**2 / d),
    Law(spec(kind="ramp", start_rate_rps=150, end_rate_rps=50), lambda t, d: 150 * t - 50 * t**2 / d),
    Law(spec(kind="diurnal", rate_rps=100, amplitude_ratio=0.8, period_s=30, phase_ratio=0.25), _diurnal),
]
GAMMA = [Law(spec(kind="gamma", rate_rps=100, cv=cv), lambda t, d: 100 * t) for cv in (0.3, 1.0, 3.0)]
CONSTANT = [
    Law(spec(kind="constant", rate_rps=100), lambda t, d: 100 * t),
    Law(spec(kind="constant", rate_rps=7.3), lambda t, d: 7.3 * t),
    Law(spec(kind="constant", rate_rps=1 / 3), lambda t, d: t / 3),
]
