"""How long a job will run: what its submission declares, and what runs of the same spec took.

Durations are right-skewed, so all is averaged in log space. With d the declared duration, b the bias of declarations
(mean of ``log(actual / declared)`` over all runs), h the smoothed history of the spec and n its number of runs:

    h <- (1 - BETA) h + BETA log(actual)          (the first run sets h)
    log est = (PSEUDO_RUNS (log d + b) + n h) / (PSEUDO_RUNS + n)

A spec's declaration weighs as much as two runs, so its first runs already correct it, and one odd run does not. A spec
without a declaration takes the mean of all runs until it has a history of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from inferbench_tasks.errors import InputError

PSEUDO_RUNS = 2.0
BETA = 0.3
#: Pseudo-runs without bias: the first jobs ever do not swing the correction.
BIAS_PSEUDO_RUNS = 5.0
LIMIT_RATIO = 3.0
#: Used for the first job ever, if it declares nothing.
UNKNOWN_S = 600.0


@dataclass(slots=True)
class _History:
    log_s: float
    runs: int


class Estimator:
    """Learns from finished runs; the same runs in the same order give the same estimates."""

    def __init__(self) -> None:
        self._specs: dict[str, _History] = {}
        self._bias_sum = 0.0
        self._bias_runs = 0
        self._log_sum = 0.0
        self._runs = 0

    def observe(self, spec_hash: str, actual_s: float, declared_s: float | None = None) -> None:
        """A run of a spec ended well after ``actual_s``; ``declared_s`` is what its submission said."""
        _require_positive(actual_s, "actual_s")
        log_s = math.log(actual_s)
        self._log_sum += log_s
        self._runs += 1
        if declared_s is not None:
            _require_positive(declared_s, "declared_s")
            self._bias_sum += log_s - math.log(declared_s)
            self._bias_runs += 1
        history = self._specs.get(spec_hash)
        if history is None:
            self._specs[spec_hash] = _History(log_s, 1)
        else:
            history.log_s += BETA * (log_s - history.log_s)
            history.runs += 1

    def knows(self, spec_hash: str) -> bool:
        """Whether a run of the spec was observed."""
        return spec_hash in self._specs

    def estimate_s(self, spec_hash: str, declared_s: float | None = None) -> float:
        """The expected duration of the next run of a spec."""
        history = self._specs.get(spec_hash)
        if declared_s is None:
            if history is not None:
                return math.exp(history.log_s)
            return math.exp(self._log_sum / self._runs) if self._runs else UNKNOWN_S
        _require_positive(declared_s, "declared_s")
        prior = math.log(declared_s) + self.log_bias
        if history is None:
            return math.exp(prior)
        mixed = PSEUDO_RUNS * prior + history.runs * history.log_s
        return math.exp(mixed / (PSEUDO_RUNS + history.runs))

    @property
    def log_bias(self) -> float:
        """By how much declarations are too short, as a logarithm; shrunk towards 0 while runs are few."""
        return self._bias_sum / (self._bias_runs + BIAS_PSEUDO_RUNS)


def hard_limit_s(est_s: float, given_s: float | None = None) -> float:
    """After how long a job is stopped: what its submission says, else three times its estimate."""
    if given_s is None:
        return LIMIT_RATIO * est_s
    _require_positive(given_s, "the time limit")
    return given_s


def _require_positive(value: float, name: str) -> None:
    if not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number of seconds, not {value}")
