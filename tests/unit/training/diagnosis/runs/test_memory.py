"""Too little memory, of made-up evidence of known times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def causes_ms(run: Observation) -> dict[str, float]:
    return {cause.rule: 1e3 * (cause.cost_s or 0.0) for cause in causes_of(run)}


def test_what_is_read_again_for_want_of_memory_is_counted_once() -> None:
    """Of 20 ms of reading 5 are such stalls: 5 are memory's, 15 fetch's, and of what is kept they are still lost."""
    run = observe(
        Batch(22.0, 2.0, read_ms=20.0, collate_ms=1.0), loading_ms=22.0, loading_cpu_ms=2.0,
        memory=memory(stalled_ratio=5 / 32),
    )  # fmt: skip
    of = {cause.rule: cause for cause in causes_of(run)}
    assert causes_ms(run) == pytest.approx({"fetch": 15.0, "memory": 5.0})
    assert "15 ms are reading" in of["fetch"].sentence and "5 ms of it for want" in of["fetch"].evidence[0]
    assert of["fetch"].gain_s == pytest.approx(0.016), (
        "32 ms less the 10 of computing, 1 of collating, 5 of stalls"
    )


def test_stalls_for_want_of_memory_take_no_core() -> None:
    """One core, a process that makes 40 ms a batch, 20 of them reading and 8 a step stalled: kept in memory 1 ms of
    collating computes, so that the step is max(10, 1 + 8, 1 + 10) = 11 of 40. With 25 ms of CPU time without reading
    it is max(10, 40 - 12, 20 + 10) = 30.
    """
    of = memory(stalled_ratio=0.2, scope="cgroup")
    one: dict[str, Any] = {"loading_ms": 30.0, "workers": 1, "cores": 1, "memory": of}
    kept = observe(Batch(40.0, 20.0, read_ms=20.0, collate_ms=1.0), **one)
    assert next(each.gain_s for each in causes_of(kept) if each.rule == "fetch") == pytest.approx(0.029)
    busy = observe(Batch(40.0, 25.0, read_ms=20.0, collate_ms=1.0), **one)
    assert causes_ms(busy)["fetch"] == pytest.approx(10.0)


def test_most_of_the_reading_for_want_of_memory_leaves_no_fetch() -> None:
    """11 of 20 ms: to hold the data in memory would make it worse."""
    run = observe(
        Batch(22.0, 2.0, read_ms=20.0),
        loading_ms=22.0,
        loading_cpu_ms=2.0,
        memory=memory(stalled_ratio=11 / 32),
    )
    assert causes_ms(run) == pytest.approx({"memory": 11.0})


def test_making_that_stands_still_for_memory_is_no_preparation() -> None:
    """Of 20 ms of making 8 are stalls: two processes bring 12 + 10 down to 11, and the 8 are memory's alone."""
    run = observe(
        Batch(20.0, 12.0), loading_ms=20.0, loading_cpu_ms=12.0, memory=memory(stalled_ratio=8 / 30)
    )
    assert causes_ms(run) == pytest.approx({"preparation": 11.0, "memory": 8.0})


def test_the_stalls_of_loader_processes_are_of_the_steps_that_a_batch_takes() -> None:
    """Two processes make a batch in 40 ms each, 30 of them reading, 20 of a step: 8 ms of stalls a step are 16 of
    them, more than half. With 5 a step 10 are, and reading costs 20 ms less (40 - 20) / 2 = 10.
    """
    batch = Batch(40.0, 10.0, read_ms=30.0)
    for stalled_ms, expected in ((8.0, {"memory": 8.0}), (5.0, {"memory": 5.0, "fetch": 10.0})):
        of = memory(stalled_ratio=stalled_ms / 20.0, scope="cgroup")
        run = observe(batch, loading_ms=10.0, workers=2, memory=of)
        assert causes_ms(run) == pytest.approx(expected)


def test_what_a_gpus_threads_wait_for_their_device_is_no_want_of_memory() -> None:
    """Blocked 6 ms in forward, which is the device's; of loading 2 ms, which somebody's pressure may be."""
    gpu = {"devices": {"kind": "gpu"}}
    assert causes_of(blocked(6.0, memory(), fields=gpu)) == []
    run = observe(Batch(2.0, 0.0, read_ms=0.0), loading_ms=2.0, memory=memory(), fields=gpu)
    assert causes_ms(run) == pytest.approx({"memory": 2.0})


def reading(of_memory: dict[str, Any], **fields: Any) -> Observation:
    """A batch takes 14 ms: 3 of CPU time, 12 of reading, of which 11 are blocked; thrice as long in the first round."""
    rounds = np.repeat([0.0, 1.0, 2.0], 20)
    longer = np.where(rounds == 0, 3.0, 1.0)
    steps = {"step": np.arange(60, dtype=np.float64), "round": rounds, "read_ns": 12e6 * longer} | {
        f"loading_{clock}_ns": ms * 1e6 * longer
        for clock, ms in (("wall", 14.0), ("cpu", 3.0), ("wait", 0.0))
    }
    data = {"kind": "dummy", **fields.pop("data", {})}
    return observe(
        Batch(14.0, 3.0, read_ms=12.0), loading_ms=14.0, loading_cpu_ms=3.0, memory=of_memory, ranks=(steps,),
        fields={"data": data, **fields},
    )  # fmt: skip


@pytest.mark.parametrize("ratio", [0.01, None])
def test_an_array_that_is_read_again_in_each_epoch_is_out_of_memory(ratio: float | None) -> None:
    """The kernel's count has next to none of it, or there is none: 11 of 24 ms, and in memory it would be worse."""
    (cause,) = causes_of(reading(memory(stalled_ratio=ratio)))
    assert cause.rule == "memory" and cause.cost_s == pytest.approx(0.011)
    assert "had read before, in the rounds after the first: 11 ms" in " ".join(cause.evidence)


@pytest.mark.parametrize(
    ("of_memory", "fields"),
    [
        ({"major_faults": 0.5}, {}),
        ({}, {"data": {"kind": "jpeg"}}),
        ({}, {"train": {"max_steps": 40}}),
    ],
)
def test_reading_that_may_be_the_first_is_a_fetch(of_memory: dict[str, Any], fields: dict[str, Any]) -> None:
    """No page had to be read; files, which are read where they are; epochs of some samples, others each time."""
    assert list(causes_ms(reading(memory(stalled_ratio=0.01, **of_memory), **fields))) == ["fetch"]
