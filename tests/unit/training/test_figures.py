"""Figures of steps, against sums worked out by hand."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.training import figures, steps
from inferbench_tasks.training.exchange import Exchange
from inferbench_tasks.training.order import Answer
from inferbench_tasks.training.phases import (
    HEAD,
    LAST,
    MEASURED,
    TIMES,
    WARMUP,
    NoInstrument,
    Synchronised,
    part_of,
)
from inferbench_tasks.training.sending import PARTS
from inferbench_tasks.training.statistics import interval, interval_of_rate, of_steps
from tests.unit.training.epochs import MS, answer


def test_phases_are_set_beside_the_step() -> None:
    """4 + 1 + 5 ms of a step of 12 ms: 83% are explained, 2 ms are not; two ranks count a step once."""
    timing = figures.of_timing([answer(0), answer(1, factor=3)], "inference", "ddp")
    assert timing["steps"] == 3 * 20
    # Rank 1 takes three times as long: the mean of both is twice the times.
    assert timing["step_ms"]["mean"] == pytest.approx(24)
    assert timing["phases"]["loading"]["wall_ms"]["p50"] == pytest.approx(8)
    assert timing["phases"]["loading"]["cpu_ms"] == pytest.approx(2)
    assert timing["phases"]["forward"]["wait_ms"] == pytest.approx(6)
    assert timing["explained_ratio"] == pytest.approx(10 / 12)
    assert timing["unexplained_ms"] == pytest.approx(4) and timing["clocks_ms"] == pytest.approx(2)
    assert [rank["step_ms"] for rank in timing["ranks"]] == pytest.approx([12, 36])
    assert timing["ranks"][1]["phases"]["loading"] == pytest.approx(
        {"wall_ms": 12.0, "cpu_ms": 3.0, "wait_ms": 6.0}
    )
    assert timing["warmup"] == {"steps": 6, "mean_step_ms": pytest.approx(24)}
    assert timing["last"] == {"steps": 3, "mean_step_ms": pytest.approx(24)}


def test_what_other_threads_do_is_no_time_of_the_thread_that_runs_the_step() -> None:
    """Of a forward pass of 5 ms threads that exchange computed 6 ms and waited 20: 2 and 3 ms are its own."""
    one = answer()
    for epoch in one.epochs:
        for row in epoch.rows:
            row[epoch.columns.index("forward_cpu_ns")] = 8 * MS
            row[epoch.columns.index("forward_wait_ns")] = 23 * MS
    forward = figures.of_timing([one], "inference", "single")["phases"]["forward"]
    assert [forward[f"{of}_ms"] for of in ("cpu", "wait", "own_cpu", "own_wait")] == pytest.approx(
        [8, 23, 2, 3]
    )
    for epoch in one.epochs:
        for row in epoch.rows:
            row[epoch.columns.index("forward_own_wait_ns")] = None
    assert figures.of_timing([one], "inference", "single")["phases"]["forward"]["own_wait_ms"] is None


def test_an_exchange_that_was_not_told_is_null_with_its_reason() -> None:
    """Never zero."""
    for benchmark, strategy, reason in (
        ("inference", "ddp", figures.NO_GRADIENTS),
        ("train", "single", figures.NO_EXCHANGE),
        ("train", "ddp", figures.NOT_TOLD),
    ):
        reduce = figures.all_reduce([{}, {}], 30, 3, benchmark, strategy)
        assert reduce == {"wall_ms": None, "apart_ms": None, "reason": reason}
    few = figures.of_timing([answer(steps=1)], "train", "ddp")["all_reduce"]
    assert few["wall_ms"] is None and few["reason"].startswith("3 measured steps")


def test_the_exchange_is_the_mean_of_the_ranks() -> None:
    """6 and 10 ms in all, 2 and 4 apart: 8 and 3."""
    ranks = [
        {name: np.full(30, value * 1e6) for name, value in zip(Exchange.columns, times, strict=True)}
        for times in ((6, 2), (10, 4))
    ]
    reduce = figures.all_reduce(ranks, 30, 3, "train", "ddp")
    assert (reduce["wall_ms"]["mean"], reduce["apart_ms"]["mean"]) == pytest.approx((8, 3))
    ranks[1]["all_reduce_ns"][3] = np.nan
    assert figures.all_reduce(ranks, 30, 3, "train", "ddp")["reason"] == figures.NOT_TOLD


def test_the_bare_epochs_give_samples_per_second() -> None:
    """The samples of both ranks by the longer window: 2 x 160 in 0.6 s; with instruments it is ten twelfths of that."""
    bare = figures.bare([answer(0), answer(1, factor=3)])
    assert bare["samples_per_s"] == pytest.approx(2 * 160 / 0.6)
    assert bare["each_round"] == pytest.approx([2 * 160 / 0.6] * 3)
    assert bare["instrumented_ratio"] == pytest.approx(10 / 12)
    assert bare["samples_per_s_ci95"] == pytest.approx([2 * 160 / 0.6] * 2)


def test_rounds_of_different_speed_count_by_their_time() -> None:
    """300 samples each in 1, 2 and 3 s: 900 by 6 s are 150/s; the mean of the rates, 183, would be no round's cost.

    Beyond 150/s they have 150, 0 and -150 samples: 75/s of their mean 2 s, so +- 4.303 x 75 / sqrt(3).
    """
    one = answer()
    bare_epochs = [epoch for epoch in one.epochs if epoch.kind == "bare"]
    for seconds, epoch in enumerate(bare_epochs, 1):
        epoch.window_start_ns, epoch.window_samples = 0, 300
        epoch.window_end_ns = seconds * 1_000_000_000
    bare = figures.bare([one])
    half = 4.30265 * 75 / math.sqrt(3)
    assert bare["samples_per_s"] == pytest.approx(150)
    assert bare["samples_per_s_ci95"] == pytest.approx([150 - half, 150 + half], rel=1e-5)
    assert bare["each_round"] == [300, 150, 100] and interval_of_rate(np.ones(2), np.ones(2)) is None
    bare_epochs[2].window_end_ns = None
    without = figures.bare([one])
    assert without["samples_per_s"] is None and without["each_round"] == [300, 150, None]


def test_too_few_steps_give_no_figure() -> None:
    """27 in three rounds are null with the reason; 30 are not."""
    few = [answer(steps=9)]
    timing, bare = figures.of_timing(few, "inference", "single"), figures.bare(few)
    assert timing["step_ms"] is None and timing["phases"] is None and timing["explained_ratio"] is None
    assert timing["reason"] == "27 measured steps are too few for a figure, which needs 30"
    assert bare["samples_per_s"] is None and "27 measured steps" in bare["reason"]
    assert figures.of_timing([answer(steps=10)], "inference", "single")["reason"] is None


def test_raw_steps_are_a_row_each() -> None:
    """With rank, round, part in words and a null loss where there is none."""
    table = steps.table([answer(0), answer(1)])
    assert table.num_rows == 2 * 3 * (2 + 20 + 1)
    rows = table.slice(22, 1).to_pylist()
    assert rows[0]["part"] == "last" and rows[0]["samples"] == 3 and rows[0]["loss"] is None
    assert rows[0]["loading_wait_ns"] == 2_000_000 and rows[0]["rank"] == 0


def test_a_smaller_batch_is_never_measured() -> None:
    """Neither is the warm-up."""
    assert [part_of(step, 8, 2, 8) for step in range(4)] == [WARMUP, WARMUP, MEASURED, MEASURED]
    assert part_of(0, 3, 2, 8) == part_of(9, 3, 2, 8) == LAST


def test_an_interval_is_that_of_student() -> None:
    """Of 1, 2, 3: 2 +- 4.303 x 1 / sqrt(3); of two values there is none."""
    low, high = interval(np.array([1.0, 2.0, 3.0])) or (math.nan, math.nan)
    assert (low, high) == pytest.approx((2 - 4.30265 / math.sqrt(3), 2 + 4.30265 / math.sqrt(3)), rel=1e-5)
    assert interval(np.array([1.0, 2.0])) is None
    assert of_steps([np.arange(1.0, 51.0), np.arange(51.0, 101.0)])["p50"] == 50.5


def test_the_interval_of_a_step_holds_where_rounds_differ() -> None:
    """By 5% from round to round, which blocks of steps can't see: 95% of the intervals hold, not two thirds."""
    rng = np.random.default_rng(7)
    for sd in (0.0, 0.05):
        held = 0
        for _ in range(400):
            rounds = [10 * (1 + sd * rng.normal()) + rng.normal(0, 0.1, 50) for _ in range(3)]
            low, high = of_steps(rounds)["ci95"]
            held += low <= 10 <= high
        assert 0.92 <= held / 400 <= 0.98, (sd, held)


def test_the_thread_that_runs_a_step_has_its_own_clocks() -> None:
    """What another thread of the process computes and waits is in the sums, and not in those."""
    instrument = Synchronised(lambda: None, ThreadWaits(), TIMES)

    def beside() -> None:
        other = threading.Thread(target=sum, args=(range(3_000_000),))
        other.start()
        other.join()

    instrument.step_begins()
    instrument.run(beside)
    instrument.step_ends(0, 8, MEASURED)
    times = [value for value in instrument.rows[0][len(HEAD) : -1] if value is not None]
    phase = dict(zip(TIMES, times, strict=True))
    assert phase["cpu_ns"] > 3 * phase["own_cpu_ns"] > 0
    assert phase["wall_ns"] > 3 * phase["own_cpu_ns"] and phase["own_wait_ns"] <= phase["wall_ns"]


def test_a_mean_is_within_its_interval_however_the_steps_divide() -> None:
    """The middle is that of the rounds, which all have as many steps."""
    of = figures.of_timing([answer(0, steps=31)], "inference", "single")["step_ms"]
    assert of["ci95"] == pytest.approx([of["mean"]] * 2)


def test_a_loss_counts_each_sample_once() -> None:
    """22 batches of 8 with a loss of 1 and a last one of 3 with a loss of 9: (176 + 27) / 179, not 31 / 23."""
    of = answer(0)
    for epoch in of.epochs:
        epoch.losses = [*[1.0] * 22, 9.0]
    assert figures.loss([of, of])["first"] == pytest.approx((176 + 27) / 179)


def test_a_phase_s_own_clocks_lie_outside_of_it() -> None:
    """Each phase has six figures, and the step is at least as long as their sum."""
    calls: list[int] = []
    instrument = Synchronised(lambda: calls.append(1), ThreadWaits())
    instrument.step_begins()
    assert instrument.run(sum, range(100_000)) == sum(range(100_000))
    assert instrument.run(max, 1, 2) == 2
    instrument.step_ends(0, 8, MEASURED)
    (row,) = instrument.rows
    assert len(row) == 5 + 2 * 6 + 1 and len(calls) == 4
    step_ns, first_ns, second_ns, clocks_ns = (row[at] for at in (4, 6, 12, 17))
    assert step_ns is not None and first_ns is not None and second_ns is not None and clocks_ns is not None
    assert step_ns >= first_ns + second_ns + clocks_ns and first_ns + second_ns > 0 and clocks_ns > 0
    bare = NoInstrument()
    assert bare.run(max, 1, 2) == 2 and bare.rows == []


def with_parts(of: Answer, parts_ms: dict[str, int | None]) -> Answer:
    """The same with these parts of each batch."""
    for one in of.epochs:
        if one.rows:
            one.columns += [f"{part}_ns" for part in PARTS]
            for row in one.rows:
                row += [None if (ms := parts_ms.get(part)) is None else ms * MS for part in PARTS]
    return of


def test_a_batch_is_made_and_then_waits_and_is_handed_over() -> None:
    """2 + 3 + 1 + 1 ms to be made; of 9 until the rank has it 4 + 1 are transfer. Two ranks count alike."""
    parts: dict[str, int | None] = {
        "read": 2, "decode": 3, "transform": 1, "collate": 1, "queued": 9, "queue_wait": 4, "serialise": 4,
        "deserialise": 1,
    }  # fmt: skip
    twice = {part: 2 * (ms or 0) for part, ms in parts.items()}
    told = figures.loader_parts([with_parts(answer(0), parts), with_parts(answer(1), {**twice})])
    assert told is not None and set(told) == {f"{name}_ms" for name in (*PARTS, "making", "transfer")}
    assert told["making_ms"] == pytest.approx(10.5) and told["queued_ms"] == pytest.approx(13.5)
    assert told["queue_wait_ms"] == pytest.approx(6) and told["transfer_ms"] == pytest.approx(7.5)


def test_a_rank_that_makes_its_batches_hands_none_over() -> None:
    """No transfer of 0, but none; without a loader there are no parts."""
    own: dict[str, int | None] = dict.fromkeys(("read", "decode", "transform", "collate", "queued"), 1)
    told = figures.loader_parts([with_parts(answer(0), own)])
    assert told is not None and told["making_ms"] == pytest.approx(4) and told["queued_ms"] == 1
    assert (
        told["queue_wait_ms"] is told["serialise_ms"] is told["deserialise_ms"] is told["transfer_ms"] is None
    )
    assert figures.loader_parts([answer(0)]) is None
