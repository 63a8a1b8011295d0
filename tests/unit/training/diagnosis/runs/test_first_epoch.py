"""An epoch that is slower than all later ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Batch, Observation
from inferbench_tasks.training.diagnosis.runs import first_epoch
from tests.unit.training.diagnosis.observations import COMPUTING_MS, first, observe
from tests.unit.training.diagnosis.runs.test_memory import memory

STEPS = 20


def run_of(loading_ms: list[float], read_ms: list[float] | None = None) -> Observation:
    """A rank of 10 ms of computing and a loading that differs by round; what of it is no read takes no time."""
    read_ms = loading_ms if read_ms is None else read_ms
    number = np.repeat(np.arange(len(loading_ms), dtype=np.float64), STEPS)
    loading, read = (np.repeat(np.array(of), STEPS) * 1e6 for of in (loading_ms, read_ms))
    steps = {"step": number, "round": number, "step_ns": loading + 10e6, "loading_wall_ns": loading}
    steps |= {f"{part}_ns": np.zeros(len(number)) for part in ("decode", "transform", "collate", "queued")}
    steps |= {f"{name}_wall_ns": np.full(len(number), of * 1e6) for name, of in COMPUTING_MS.items()}
    for name in ("loading", *COMPUTING_MS):
        steps |= {f"{name}_wait_ns": np.zeros(len(number)), f"{name}_cpu_ns": steps[f"{name}_wall_ns"]}
    steps |= {"loading_cpu_ns": np.zeros(len(number)), "read_ns": read}
    mean = float(np.mean(loading_ms))
    batch = Batch(mean, 0.0, read_ms=float(np.mean(read_ms)))
    fields = {"train": {"rounds": len(loading_ms), "batch_size": 8}}
    return observe(batch, loading_ms=mean, fields=fields, ranks=(steps,))


def test_files_that_only_the_first_epoch_reads_from_the_disk_are_its_effect() -> None:
    """40 ms of reads in the first of 5 epochs and 0.2 later: 39.8 / 5 = 7.96 ms of a step, and half in 10 rounds.

    The reads of the first epoch are no fetch stall of the others.
    """
    run = run_of([40.0, 0.2, 0.19, 0.21, 0.2])
    cause = first(run)
    assert cause.rule == "first_epoch" and cause.changes == {"train.rounds": 10}
    assert cause.cost_s == pytest.approx(0.00796) and cause.gain_s == pytest.approx(0.00398)
    assert [each.rule for each in causes_of(run)] == ["first_epoch"]
    assert "most of it in loading: 39.8 ms" in cause.evidence[1]


def test_reads_that_every_epoch_has_are_no_effect_of_the_first() -> None:
    """30 ms in each of them, a little by chance."""
    causes = causes_of(run_of([30.5, 30.0, 29.8, 30.2, 30.1]))
    assert [cause.rule for cause in causes] == ["fetch"]


def test_a_wait_of_the_first_epoch_is_not_taken_off_the_later_ones() -> None:
    """Batches of 10 ms, for which the loader process waited 60 ms more in the first of three epochs: of the later ones
    10 ms of making are left, with 8 of CPU time, and not 10 - 20 of the mean wait.
    """
    run = run_of([60.0, 0.2, 0.2])
    (steps,) = run.ranks
    first_round = steps["round"] == 0
    made = np.where(first_round, 70e6, 10e6)
    used = {"made_cpu_ns": np.full(len(made), 8e6), "made_wait_ns": np.where(first_round, 60e6, 0.0)}
    run = replace(
        run,
        job=run.job.model_copy(update={"loader": run.job.loader.model_copy(update={"workers": 1})}),
        batch=Batch(10.0, 8.0, wait_ms=20.0),
        ranks=({**steps, "read_ns": np.zeros(len(made)), "decode_ns": made, **used},),
    )
    batch = first_epoch.later(run).batch
    assert batch is not None
    assert (batch.making_ms, batch.cpu_ms, batch.wait_ms) == pytest.approx((10.0, 8.0, 0.0))


def test_both_are_told_where_both_are() -> None:
    """100 ms at first, 20 later: 80 / 5 = 16 ms by the first epoch, and 20 ms of each later step by reading."""
    causes = causes_of(run_of([100.0, 20.0, 20.1, 19.9, 20.0]))
    assert [(cause.rule, round((cause.cost_s or 0) * 1e3, 1)) for cause in causes] == [
        ("fetch", 20.0),
        ("first_epoch", 16.0),
    ]


def test_stalls_for_want_of_memory_are_not_charged_twice() -> None:
    """Of 46 ms a step half are stalls, 23 ms; the first epoch's excess may hold 16 of them, so that 7 are the others'.

    Where 16 ms are all that there are, the first epoch is the only cause that has them.
    """
    for ratio, cost_ms in ((0.5, 7.0), (16 / 46, None)):
        run = replace(
            run_of([100.0, 20.0, 20.1, 19.9, 20.0], [0.0] * 5),
            memory=memory(scope="cgroup", stalled_ratio=ratio),
        )
        found = {cause.rule: cause for cause in causes_of(run)}
        assert found["first_epoch"].cost_s == pytest.approx(0.016)
        if cost_ms is None:
            assert "memory" not in found
        else:
            assert found["memory"].cost_s == pytest.approx(cost_ms / 1e3)
            assert any("at least, in the epochs after the first" in line for line in found["memory"].evidence)


def test_of_three_rounds_a_moderately_longer_first_one_is_no_cause() -> None:
    """12 ms beside 10.5 and 10: two later rounds that differ by half a millisecond tell too little."""
    assert list(first_epoch.find(run_of([2.0, 0.5, 0.0]))) == []


def test_equal_rounds_have_a_first_epoch_no_more_often_than_stated() -> None:
    """Rounds that differ by chance: 1% of 2,000 are 20; more than 34 have a chance of 0.1%."""
    rng = np.random.default_rng(1)
    alarms = sum(
        bool(list(first_epoch.find(run_of(list(5 + 0.5 * rng.standard_normal(4)))))) for _ in range(2000)
    )
    assert 5 <= alarms <= 34
