"""How much of tonight's baseline is the machine, and how much is noise.

The ratio candidate / baseline of a session is free of what the whole machine does, but carries the noise of both sides.
The baseline's code is the same every night: where its level hardly moves, its history says better what the machine
gives than one night does. So the machine's level over some sessions is taken to be the baseline's level there, drawn
to its history (the best linear unbiased prediction, Henderson 1975, of a level that varies with variance machine^2):

    level = history + weight * (tonight - history),    weight = machine^2 / (machine^2 + noise^2)

``machine`` is what levels over as many sessions have differed from the history before them, beyond noise. Where the
machine drifts, ``weight`` comes near one, and the ratio stays what it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.regression.base import Session
from inferbench_tasks.regression.power import Noise

#: So many sessions make a history, and so many later looks at it say how much the machine moves.
MIN_BEFORE, MIN_MOVES = 4, 4
#: No machine is steadier than that from one time to another, ln ratio: what has not been seen yet may still come.
FLOOR = 0.003
#: A level farther from its history than so many standard deviations is the machine's.
UNUSUAL = 2.0


@dataclass(frozen=True)
class Leveled:
    """``effect``: mean ln ratio to the machine's level of these sessions; ``error``: its standard error."""

    effect: float
    error: float


def leveled(history: Sequence[Session], now: Sequence[Session], noise: Noise) -> Leveled:
    """The effect of the sessions ``now`` with all that the baseline's ``history`` says; plain ratios without one.

    ``noise``: of one session's ratio, of which each side has half.
    """
    plain = float(np.mean([session.effect for session in now]))
    count = len(now)
    pairs = int(np.median([len(session.log_ratios()) for session in now]))
    side = noise.of_session(pairs) ** 2 / 2
    levels = np.asarray([s.level for s in history if s.baseline_id == now[0].baseline_id])
    moves = _moves(levels, count, noise.within**2 / pairs / 2)
    if len(moves) < MIN_MOVES:
        return Leveled(plain, math.sqrt(2 * side / count))
    moved = float(np.mean([session.level for session in now]) - np.mean(levels))
    expected = side * (1 / count + 1 / len(levels))
    machine = max(FLOOR**2, float(np.mean(moves)))
    weight = machine / (machine + expected) if abs(moved) <= UNUSUAL * math.sqrt(machine + expected) else 1.0
    error = math.sqrt(
        side / count + weight**2 * side / count + (1 - weight) ** 2 * (machine + side / len(levels))
    )
    return Leveled(plain + (1 - weight) * moved, error)


def _moves(levels: NDArray[np.float64], count: int, within: float) -> list[float]:
    """By how much ``count`` sessions in a row differed from the history before them, squared, less what their runs'
    noise explains. What sessions differ by beyond that counts as the machine's: that errs to the side of ratios.
    """
    moves = []
    for start in range(MIN_BEFORE, len(levels) - count + 1):
        moved = float(levels[start : start + count].mean() - levels[:start].mean())
        moves.append(moved**2 - within * (1 / count + 1 / start))
    return moves
