"""Too little memory, of made-up evidence of known times."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Batch, Observation, PhaseTimes
from tests.unit.training.diagnosis.observations import COMPUTING_MS, observe

MB = 1e6


def memory(**changes: Any) -> dict[str, Any]:
    """Half of the time stands still for memory, with 20 faults a step."""
    return {
        "steps": 100, "major_faults": 20.0, "stalled_ratio": 0.5, "scope": "machine", "swapped_in_bytes": 0.0,
        "swapped_out_bytes": 0.0, "least_available_bytes": 300 * MB, "most_resident_bytes": 900 * MB,
        "limit_bytes": int(800 * MB), **changes,
    }  # fmt: skip


def blocked(blocked_ms: float, of_memory: dict[str, Any] | None, **more: Any) -> Observation:
    """A step of 10 ms of computing, in whose forward pass the rank is blocked beside."""
    run = observe(None, loading_ms=0.0, memory=of_memory, **more)
    forward = PhaseTimes(COMPUTING_MS["forward"] + blocked_ms, COMPUTING_MS["forward"])
    return Observation(
        **{**run.__dict__, "step_ms": 10.0 + blocked_ms, "phases": {**run.phases, "forward": forward}}
    )


def test_stalls_of_the_machine_cost_no_more_than_the_ranks_were_blocked() -> None:
    """Half of 20 ms was somebody's stall; the rank was blocked for 6 of its 16 ms."""
    (cause,) = causes_of(blocked(6.0, memory()))
    assert cause.rule == "memory" and cause.cost_s == 0.006 and cause.gain_s == 0.006
    text = " ".join(cause.evidence)
    assert "20 a step" in text and "50.0% of the time (PSI)" in text and "of the machine" in text
    assert "resident at most 900 MB" in text and "800 MB that its cgroup has" in (cause.remedy or "")


def test_stalls_of_its_own_cgroup_are_all_its_own() -> None:
    """Reclaiming is work of the kernel on the rank's behalf: it is CPU time, and lost all the same."""
    (cause,) = causes_of(blocked(6.0, memory(scope="cgroup")))
    assert cause.cost_s == 0.008


def test_swapping_is_told_without_faults_of_files() -> None:
    """What comes back from the swap is named with its size."""
    of = memory(major_faults=0.0, swapped_in_bytes=2 * MB, swapped_out_bytes=3 * MB)
    (cause,) = causes_of(blocked(6.0, of))
    assert cause.rule == "memory" and any("2 and 3 MB a step" in line for line in cause.evidence)


def test_others_stalls_are_no_cause() -> None:
    """Pressure on the machine while this training has neither faults nor swapping is others'; nor is a fault now and
    then one, nor a run of before that counted none.
    """
    assert causes_of(blocked(6.0, memory(major_faults=0.0))) == []
    assert causes_of(blocked(6.0, memory(major_faults=0.2))) == []
    assert causes_of(blocked(6.0, memory(stalled_ratio=0.01))) == []
    assert causes_of(blocked(6.0, None)) == []


def test_without_the_kernels_count_what_is_blocked_while_computing_counts() -> None:
    """A kernel without PSI: of the loss and the optimiser a quarter was blocked, so a quarter of the step is lost."""
    steps = {
        f"{phase}_{clock}_ns": np.full(50, value * 1e6)
        for phase in ("forward", "loss", "optimiser")
        for clock, value in (("wall", 4.0), ("own_cpu", 3.0), ("own_wait", 0.0))
    }
    run = blocked(6.0, memory(stalled_ratio=None, scope=None), ranks=(steps,))
    cause = next(cause for cause in causes_of(run) if cause.rule == "memory")
    assert cause.cost_s == 0.004


def test_loader_processes_beyond_those_that_are_enough_are_the_remedy() -> None:
    """A batch is made in 2 ms beside 10 of computing: one process is enough, and three hold memory for nothing."""
    run = observe(Batch(2.0, 2.0), loading_ms=1.0, workers=4, memory=memory(scope="cgroup"))
    cause = next(cause for cause in causes_of(run) if cause.rule == "memory")
    assert cause.changes == {"loader.workers": 1}
    assert "1 loader process(es) for each rank are enough" in (cause.remedy or "")
    assert cause.gain_s is None and cause.cost_s, "what the fewer processes leave free nobody can tell before"
