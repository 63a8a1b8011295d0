"""BenchmarkJade's columns, against its loops worked out by hand."""

from __future__ import annotations

import pytest

from inferbench_tasks.training import figures, jade
from inferbench_tasks.training.jade import JadeTimes, of_epochs
from inferbench_tasks.training.order import Answer, Epoch
from inferbench_tasks.training.phases import HEAD, MEASURED, WARMUP, phases_of

MS = 1_000_000


class Clock:
    """Each work takes as many ms as it says, each barrier one."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def work(self, ms: int) -> None:
        self.now_ns += ms * MS

    def barrier(self) -> None:
        self.work(1)


@pytest.mark.parametrize(
    ("benchmark", "strategy", "works_ms", "columns"),
    [
        # Loading waits at the barrier and holds the transfer, forward the loss, backward the optimiser.
        ("train", "ddp", [10, 2, 30, 4, 50, 6], {"loading": 13, "forward": 35, "backward": 57}),
        ("inference", "single", [10, 2, 30], {"loading": 13, "forward": 31}),
        # Nothing waits behind the forward pass: what the device still does there is the next step's loading.
        ("smooth_inference", "single", [10, 2, 3, 30], {"loading": 11, "processing": 6, "forward": 30}),
        ("smooth_inference", "ddp", [10, 2, 3, 30, 7], {"loading": 11, "processing": 6, "forward": 37}),
    ],
)
def test_columns_end_where_its_loops_read_the_clock(
    benchmark: str,
    strategy: str,
    works_ms: list[int],
    columns: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the millisecond, by benchmark; a step is the sum of its columns."""
    clock = Clock()
    monkeypatch.setattr(jade, "time", clock)
    assert len(phases_of(benchmark, strategy)) == len(works_ms)
    times = JadeTimes(benchmark, strategy, clock.barrier)
    times.epoch_begins()
    for step in range(2):
        times.step_begins()
        for ms in works_ms:
            times.run(clock.work, ms)
        times.step_ends(step, 8, MEASURED)
    assert times.columns == [*HEAD, *(f"{name}_ns" for name in columns)]
    for row in times.rows:
        assert dict(zip(columns, row[len(HEAD) :], strict=True)) == {k: v * MS for k, v in columns.items()}
        assert row[HEAD.index("step_ns")] == sum(columns.values()) * MS


def epoch(loading_ms: list[int]) -> Epoch:
    """Steps of so much loading and 10 ms of forward, the first of them warm-up; 5 ms of the epoch are no step's."""
    rows: list[list[int | None]] = [
        [step, MEASURED if step else WARMUP, 8, 0, (ms + 10) * MS, ms * MS, 10 * MS]
        for step, ms in enumerate(loading_ms)
    ]
    return Epoch(
        kind="jade", round=0, started_ns=0, ready_ns=0, ended_ns=(sum(loading_ms) + 10 * len(loading_ms) + 5) * MS,
        columns=[*HEAD, "loading_ns", "forward_ns"], rows=rows,
    )  # fmt: skip


def test_means_are_over_all_steps_the_first_with_them() -> None:
    """100 ms once and 2 ms 19 times: a mean of 6.9 ms, and 2 ms without the warm-up."""
    block = of_epochs([epoch([100, *[2] * 19])] * 2)
    assert block["steps"] == 40
    assert block["columns"] == pytest.approx({"loading": 0.0069, "forward": 0.010})
    assert block["without_warmup"] == pytest.approx({"loading": 0.002, "forward": 0.010})
    assert block["step_s"] == pytest.approx(0.0169) and block["epoch_s"] == pytest.approx(0.343)
    assert block["explained_ratio"] == pytest.approx(338 / 343)


def test_too_few_steps_are_null_with_the_reason() -> None:
    """29 of them; and without epochs of this timing there is nothing at all."""
    block = of_epochs([epoch([2] * 29)])
    assert block["columns"] is None and block["reason"] == "29 steps are too few for a figure, which needs 30"
    answer = Answer(rank=0, world=1, pid=1, epochs=[], parameters=[], parameter_count=0, device="cpu")
    assert figures.jade([answer]) is None
