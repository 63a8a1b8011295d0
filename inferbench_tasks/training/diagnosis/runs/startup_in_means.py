"""BenchmarkJade's means hold what only the first steps of an epoch have: its loader's start, caches, warm-up."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause
from inferbench_tasks.training.diagnosis.observation import Observation


def find(run: Observation) -> Iterator[Cause]:
    """The columns by Jade's definition less the same over the measured steps alone, where that is 5% of a step or more.

    Both are of the same epochs and the same clock, so that their difference is what the first steps (and the last,
    smaller one) have more, and no noise between runs.
    """
    jade = run.jade
    if not jade or not jade.get("columns") or not jade.get("without_warmup"):
        return
    columns, steady = jade["columns"], jade["without_warmup"]
    step_s = sum(steady.values())
    more_s = {name: columns[name] - steady[name] for name in columns}
    too_long = {name: more for name, more in more_s.items() if step_s and more >= LEAST_SHARE * step_s}
    if not too_long:
        return
    name = max(too_long, key=lambda name: too_long[name])
    start = (
        f"starting its loader's processes takes {number(run.start_ms)} ms of each epoch"
        if run.workers
        else ""
    )
    yield Cause(
        rule="startup_in_means",
        kind="wrong",
        sentence=f"BenchmarkJade's {name} of {number(columns[name] * 1e3)} ms a step is no step's: over the measured "
        f"steps it is {number(steady[name] * 1e3)} ms, the rest is the start of each epoch.",
        evidence=[
            *(
                f"{name}: {number(columns[name] * 1e3)} ms over all steps, {number(steady[name] * 1e3)} ms without "
                "warm-up and the last, smaller batch"
                for name in columns
            ),
            *([start] if start else []),
        ],
        remedy="Compare with Jade's tables by its own columns only, and decide by those of `synchronised`.",
    )
