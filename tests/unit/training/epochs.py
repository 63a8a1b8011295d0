"""Answers of ranks with steps of known times."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Answer, Epoch
from inferbench_tasks.training.phases import CLOCKS, columns_of, part_of

MS = 1_000_000
#: Wall, CPU and wait of each phase, ms: 10 ms in sum, of 12 ms that a step takes.
PHASES_MS = {"loading": (4, 1, 2), "to_device": (1, 1, 0), "forward": (5, 2, 3)}
STEP_MS = 12
#: Of the two that no phase has.
CLOCKS_MS = 1


def epoch(kind: str, round_: int, steps: int, factor: int = 1, batch: int = 8, warmup: int = 2) -> Epoch:
    """``steps`` whole steps after the warm-up and a smaller one, each of them ``factor`` times as long."""
    rows: list[list[int | None]] = []
    for step in range(warmup + steps + 1):
        samples = batch if step < warmup + steps else 3
        row: list[int | None] = [
            step,
            part_of(step, samples, warmup, batch),
            samples,
            0,
            STEP_MS * factor * MS,
        ]
        for wall, cpu, wait in PHASES_MS.values():
            times = wall, cpu, wait, cpu, wait
            row += [0, *(time * factor * MS for time in times)]
        rows.append([*row, CLOCKS_MS * factor * MS])
    bare = kind == "bare"
    return Epoch(
        kind="bare" if bare else "synchronised",
        round=round_,
        started_ns=0,
        ready_ns=7 * MS,
        window_start_ns=100 * MS,
        window_end_ns=100 * MS + steps * (10 if bare else STEP_MS) * factor * MS,
        window_samples=steps * batch,
        columns=[] if bare else [*columns_of("inference"), CLOCKS],
        rows=[] if bare else rows,
    )


JOB = TrainingJob.model_validate({"kind": "training", "name": "n", "data": {"kind": "digits"}})
SECOND_NS = 1_000_000_000


def used(
    windows_s: Sequence[tuple[float, float]],
    cpu_s: float | None = 0.9,
    wait_s: float | None = 0.0,
    longest_s: float | None = None,
    rank: int = 0,
    loader_s: tuple[float, float] | None = None,
) -> Answer:
    """A rank whose epochs have these windows, and used and waited so much in each of their seconds."""
    epochs = []
    for number, (start_s, end_s) in enumerate(windows_s):
        seconds = end_s - start_s
        scaled = [None if of is None else of * seconds for of in (cpu_s, wait_s, longest_s or wait_s)]
        epochs.append(
            Epoch(
                kind="bare", round=number, started_ns=0, ready_ns=0,
                window_start_ns=int(start_s * SECOND_NS), window_end_ns=int(end_s * SECOND_NS),
                cpu_s=scaled[0], wait_s=scaled[1], longest_wait_s=scaled[2],
                loader_cpu_s=loader_s and loader_s[0] * seconds, loader_wait_s=loader_s and loader_s[1] * seconds,
            )
        )  # fmt: skip
    return Answer(rank=rank, world=1, pid=1, epochs=epochs, parameters=[], parameter_count=5, device="cpu")


def answer(rank: int = 0, steps: int = 20, factor: int = 1, weights: float = 1.0) -> Answer:
    """Three rounds of both kinds."""
    epochs = [epoch(kind, number, steps, factor) for number in range(3) for kind in ("synchronised", "bare")]
    return Answer(
        rank=rank, world=2, pid=1, epochs=epochs, parameters=[weights, 2.0], parameter_count=5, device="cpu"
    )
