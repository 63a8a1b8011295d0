"""The machine's level: reference bricks before and after each round tell which rounds count, and how fast it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferbench_tasks.monitors.steal import STEAL_QUARANTINE_RATIO

#: A round whose level is further off the session's median, or that waited longer for its cores, is measured again; so
#: is one of whose cores the hypervisor took ``STEAL_QUARANTINE_RATIO`` or more, as servings are disturbed by it.
LEVEL_RATIO, WAIT_RATIO = 0.03, 0.01
#: So many rounds may be measured again before the session says that the machine is not quiet.
SPARE_ROUNDS = 6
#: Of so many rounds times are bounds at least. Once they are there a round is given up that could only count if it took
#: so many times as long as the longest of them.
FEWEST_ROUNDS, LONGEST_TIMES = 2, 2.0


@dataclass(frozen=True)
class Round:
    """``references_ns``: name -> time, the mean of before and after. ``wait_ratio``: the share of the round that its
    threads were ready and had no core; ``steal_ratio``: the share of its cores' time that the hypervisor took, at
    least; each None where the kernel does not tell, the latter too of a round that was given up for waiting.
    ``taken_ns``: what timing each network took of the device in it, with its first runs and all that lies between its
    runs. ``took_ns``: the whole round; ``earlier_ns``: what of that was measured by an attempt that was ended."""

    references_ns: Mapping[str, float]
    wait_ratio: float | None
    taken_ns: Mapping[str, int] = field(default_factory=dict)
    took_ns: int = 0
    earlier_ns: int = 0
    steal_ratio: float | None = None

    @property
    def alone(self) -> bool:
        """Whether it had its cores to itself, as far as is known."""
        waited = self.wait_ratio is not None and self.wait_ratio > WAIT_RATIO
        return not waited and not stolen(self.steal_ratio)


def stolen(steal_ratio: float | None) -> bool:
    """Whether the hypervisor took so much that what was measured is disturbed."""
    return steal_ratio is not None and steal_ratio >= STEAL_QUARANTINE_RATIO


def level_of(references_ns: Mapping[str, float], base_ns: Mapping[str, float]) -> float:
    """The geometric mean of the references' times over those of ``base_ns``: 1.1 is a tenth slower."""
    return float(np.exp(np.mean([np.log(references_ns[name] / base_ns[name]) for name in base_ns])))


def good_rounds(rounds: Sequence[Round]) -> list[int]:
    """The indices of the rounds that count: near the median of all levels, and with their cores to themselves."""
    if not rounds:
        return []
    first = rounds[0].references_ns
    levels = np.array([level_of(one.references_ns, first) for one in rounds])
    near = np.abs(levels / np.median(levels) - 1) <= LEVEL_RATIO
    return [index for index, one in enumerate(rounds) if near[index] and one.alone]


def longest_ns(rounds: Sequence[Round]) -> float | None:
    """One more round will not take longer: what disturbs so long a one too much disturbs any, and the rest of it need
    not be measured; None where too few ended to say so."""
    if len(rounds) < FEWEST_ROUNDS:
        return None
    return LONGEST_TIMES * max(one.took_ns for one in rounds)
