"""How long a step takes for a number of loader processes and cores: making batches beside all that follows.

As in DS-Analyzer (Mohan et al., VLDB 2021) the slowest of what runs side by side sets the pace: without loader
processes a rank makes a batch and then works on it; with ``w`` of them a batch comes each ``making / w`` while the rank
works. Whatever runs side by side, the cores can't do more work than there are of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

#: torch's own bound of what a submission may have.
MOST_WORKERS = 16
#: More processes that make a step no faster than this are not worth their memory.
_ENOUGH = 1.02


@dataclass(frozen=True)
class Pipeline:
    """Times of one step of one rank, ms, without waits for a core. ``cpu``: of these the CPU time, over all threads.

    ``hand_over_ms``: what the rank has to do to get a batch of another process; None where that is not known.
    ``crowded_ms``: what the rest takes longer while a loader process works beside it, on a core of its own: caches,
    memory and the clock are shared. ``own_making_ms``: making a batch in the rank itself, where loader processes make
    them; None: as long as there.
    """

    ranks: int
    cores: float
    workers: int
    making_ms: float
    making_cpu_ms: float
    rest_ms: float
    rest_cpu_ms: float
    hand_over_ms: float | None = None
    crowded_ms: float = 0.0
    own_making_ms: float | None = None

    def of(self, **changes: float | int) -> Pipeline:
        """The same with other numbers."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def work_ms(self) -> float:
        """CPU time of all processes for one step."""
        if not self.workers:  # what a loader process does to hand a batch over is no work of a rank's
            return self.ranks * (min(self.making_cpu_ms, self._by_itself_ms) + self.rest_cpu_ms)
        beside_ms = (self.hand_over_ms or 0.0) + self.crowded_ms
        return self.ranks * (self.making_cpu_ms + self.rest_cpu_ms + beside_ms)

    @property
    def _by_itself_ms(self) -> float:
        return self.making_ms if self.own_making_ms is None else self.own_making_ms

    @property
    def unhindered_ms(self) -> float:
        """With a core for each thread of the ranks and each loader process."""
        if not self.workers:
            return self._by_itself_ms + self.rest_ms
        return max(self.rest_ms + self.crowded_ms + (self.hand_over_ms or 0.0), self.making_ms / self.workers)

    @property
    def step_ms(self) -> float:
        """With the cores that there are."""
        return max(self.unhindered_ms, self.work_ms / self.cores)

    @property
    def best(self) -> Pipeline:
        """The fewest loader processes that make the step as fast as any number does, but for 2%.

        The number as it is where it is not known what a batch of another process takes.
        """
        if self.hand_over_ms is None:
            return self
        choices = [self.of(workers=workers) for workers in range(MOST_WORKERS + 1)]
        fastest_ms = min(choice.step_ms for choice in choices)
        return next(choice for choice in choices if choice.step_ms <= _ENOUGH * fastest_ms)

    @property
    def unbounded(self) -> Pipeline:
        """The best with as many cores as its processes can use."""
        return self.of(cores=math.inf).best
