"""What a load's records and its certificate say of it, for tests of loads that go wrong."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.summary import summarise


def errors(outcome: Outcome) -> dict[str, int]:
    """The measured window's errors by kind."""
    found = summarise(
        outcome.table(), measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns
    )
    kinds: dict[str, int] = found["errors"]
    return kinds


def planned(plan: LoadPlan) -> int:
    """Requests of the schedule, warm-up included."""
    return sum(len(np.load(s.offsets_path)) for s in plan.segments if s.offsets_path)
