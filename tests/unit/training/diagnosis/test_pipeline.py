"""The model of a step, worked out by hand."""

from __future__ import annotations

import pytest

from inferbench_tasks.training.diagnosis.pipeline import Pipeline

#: 24 ms to make a batch, 6 ms for all that follows, 1 ms to hand it over.
SLOW = Pipeline(1, 8, 0, making_ms=24, making_cpu_ms=24, rest_ms=6, rest_cpu_ms=6, hand_over_ms=1)


@pytest.mark.parametrize(("workers", "step_ms"), [(0, 30), (1, 24), (2, 12), (3, 8), (4, 7), (16, 7)])
def test_the_slower_of_making_and_using_sets_the_pace(workers: int, step_ms: float) -> None:
    """Without loader processes one after the other; with them side by side, never below use and hand-over."""
    assert SLOW.of(workers=workers).step_ms == step_ms


def test_cores_bound_the_work_of_all_processes() -> None:
    """31 ms of CPU time take 15.5 ms on two cores, whatever the number of processes."""
    assert SLOW.of(workers=8, cores=2).step_ms == 15.5
    assert SLOW.of(workers=8, cores=2, ranks=2).step_ms == 31


def test_the_fewest_processes_that_are_enough_are_the_best() -> None:
    """Four on eight cores; two on two cores, where the work is the bound from then on."""
    assert SLOW.best.workers == 4 and SLOW.of(cores=2).best.workers == 2
    assert SLOW.of(cores=2).unbounded.workers == 4


def test_no_number_is_better_while_the_hand_over_is_not_known() -> None:
    """A prediction without it would promise too much to small batches."""
    assert SLOW.of(hand_over_ms=None).best.workers == 0  # type: ignore[arg-type]


def test_what_is_slower_beside_a_loader_process_is_so_with_one_only() -> None:
    """6 ms take 8 beside one: without processes 30 ms as before, with many 8 + 1; on two cores (24 + 8 + 1) / 2."""
    crowded = SLOW.of(crowded_ms=2.0)
    assert crowded.step_ms == 30 and crowded.of(workers=16).step_ms == 9
    assert crowded.of(workers=8, cores=2).step_ms == 16.5
