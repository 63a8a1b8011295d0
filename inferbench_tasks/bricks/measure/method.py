"""How bricks are timed: what has to agree before a result is used again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

#: Another way of measuring is another version, and its results are others'.
#: 2: buffers begin at multiples of 64 bytes; a sum that is needed afterwards, or given to the model, is copied.
VERSION = 2
#: The paper's 20% trimmed mean (section 4): a fifth off at either end, as its authors define it for MLModelScope.
TRIMMED_RATIO = 0.2
#: Fewer runs than these are no mean, whatever they take.
FEWEST_RUNS = 5
#: Runs of which no more is known than this are no measurement.
MOST_WITHIN_RATIO = 0.2
STATES = ("warm", "streamed")
#: Beside the states, of what runs on a GPU: its own time of the warm runs, where the wall's has the host's too.
DEVICE = "device"


class Setting(BaseModel):
    """What a brick's time depends on beside itself. Results are used again only where all of it agrees.

    ``processor``: of a GPU its name, and ``cores`` and ``threads`` are the host's.
    """

    model_config = ConfigDict(frozen=True)

    version: int = VERSION
    processor: str
    instruction_set: str
    cores: int
    threads: int
    runtime: str

    @property
    def runtime_name(self) -> str:
        """The runtime without its version."""
        return runtime_name(self.runtime)


def runtime_name(runtime: str) -> str:
    """That of a runtime with its version, as settings have it."""
    return runtime.partition(" ")[0]


class Method(BaseModel):
    """``runs``: of each brick and state in all rounds together, in a round for at most ``budget_s``, and no longer than
    until their mean is known within ``within_ratio`` of it (95%; 0: however well it is known)."""

    model_config = ConfigDict(frozen=True)

    runs: int = Field(100, ge=FEWEST_RUNS * 3)
    rounds: int = Field(3, ge=3)
    budget_s: float = Field(2.0, gt=0)
    within_ratio: float = Field(0.0, ge=0, le=MOST_WITHIN_RATIO)

    def covers(self, other: Method) -> bool:
        """Whether what was timed like this is at least as much as ``other`` asks for."""
        longer = self.runs >= other.runs and self.rounds >= other.rounds and self.budget_s >= other.budget_s
        return longer and self.within_ratio <= other.within_ratio

    @property
    def runs_each(self) -> int:
        """Runs in one round."""
        return math.ceil(self.runs / self.rounds)


def runs_problem(runs: int, rounds: int) -> str | None:
    """Why so many runs are too few for so many rounds, which share them; None where they are enough."""
    if runs >= FEWEST_RUNS * rounds:
        return None
    return (
        f"{runs} runs in {rounds} rounds are less than {FEWEST_RUNS} in each, of which there is no mean; take at least "
        f"{FEWEST_RUNS * rounds}"
    )


def trimmed_mean(times: Sequence[float], ratio: float = TRIMMED_RATIO) -> float:
    """The mean without the share ``ratio`` of least and as many largest values, rounded down; ValueError for none.

    Of 100 values and a ratio of 0.2 that is the mean of the 60 in the middle.
    """
    if not len(times):
        raise ValueError("no times: nothing has a mean")
    values = np.sort(np.asarray(times, np.float64))
    cut = int(len(values) * ratio)
    return float(values[cut : len(values) - cut].mean())
