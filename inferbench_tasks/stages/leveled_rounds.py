"""Part of ``trace``: the same requests with the instruments of each level, in rounds, as deep as instruments work."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from inferbench_tasks.errors import StageError
from inferbench_tasks.stages import traced
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.stages.traced import Traced
from inferbench_tasks.tracing.spans import Level

log = logging.getLogger(__name__)


@dataclass
class Rounds:
    """``medians``: of each round level -> median latency, ms. ``deep``: what was told, with its round, of the levels
    ``kept``. ``untold``: of each level whose instruments did not work why not, and nothing else is of it.
    """

    levels: list[Level]
    kept: list[Level]
    medians: list[dict[Level, float]] = field(default_factory=list)
    deep: list[tuple[int, Level, Traced]] = field(default_factory=list)
    untold: dict[Level, str] = field(default_factory=dict)


class _Failed(Exception):
    def __init__(self, level: Level, cause: StageError) -> None:
        super().__init__(level)
        self.level, self.cause = level, cause


def leveled(inp: Input, ctx: Context, levels: Sequence[Level]) -> Rounds:
    """All rounds. A level whose server does not start, answers otherwise or tells nothing is left out with those below
    it, and the rounds are begun anew without it: the levels above are told as if it had not been asked for.

    StageError where not even the parts of a request in the server can be told; CancelledError.
    """
    untold: dict[Level, str] = {}
    left = list(levels)
    while True:
        try:
            rounds = _rounds(inp, ctx, left)
        except _Failed as failed:
            left = left[: left.index(failed.level)]
            if len(left) < 2:  # a server without instruments tells nothing
                raise failed.cause from None
            untold[failed.level] = str(failed.cause)
            log.warning("no level %s run_id=%s: %s", failed.level, inp.run_id, failed.cause)
        else:
            rounds.untold = untold
            return rounds


def _rounds(inp: Input, ctx: Context, levels: list[Level]) -> Rounds:
    """Raises _Failed."""
    spec = inp.job.trace
    assert spec is not None
    # Layers' times are those without instruments below them (XSP's leveled profiling).
    made = Rounds(levels, ["layer", "library"] if levels[-1] == "library" else levels[-1:])
    for number in range(spec.rounds):
        # Each level is the first in turns, so that a machine that drifts favours none.
        turn = levels[number % len(levels) :] + levels[: number % len(levels)]
        medians: dict[Level, float] = {}
        for at, level in enumerate(turn):
            ctx.progress(number * len(levels) + at, spec.rounds * len(levels), f"tracing, level {level}")
            try:
                found = traced.once(inp, ctx, level, number)
            except StageError as error:
                raise _Failed(level, error) from error
            medians[level] = median(found.latencies_ms)
            if level in made.kept:
                made.deep.append((number, level, found))
        made.medians.append(medians)
    return made
