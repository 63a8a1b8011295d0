"""The program of a rank, as its trainer starts it: ``python -m inferbench_tasks.training.rank_main ORDER``."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from importlib.metadata import version
from pathlib import Path

from inferbench_tasks.memory import limit_bytes
from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.training.job import EpochKind, TrainingJob
from inferbench_tasks.training.order import PROGRESS_FILE, Answer, Epoch, Order, answer_path
from inferbench_tasks.training.probes import probe
from inferbench_tasks.training.rank import Rank
from inferbench_tasks.training.trainers.base import trainer_of


def epochs(job: TrainingJob) -> list[tuple[EpochKind, int]]:
    """The epochs in their order: all kinds in each round, each of them first in turns."""
    kinds = job.epoch_kinds
    plan: list[tuple[EpochKind, int]] = []
    for number in range(job.train.rounds):
        first = number % len(kinds)
        plan += [(kind, number) for kind in (*kinds[first:], *kinds[:first])]
    return plan


def device_of(job: TrainingJob, rank: int) -> str:
    """torch's name of a rank's device: those that it sees are the job's, in their order."""
    return f"cuda:{rank // job.devices.processes}" if job.devices.kind.kind == "gpu" else "cpu"


def main(path: Path) -> None:
    """All epochs; the answer is written at the end, whole."""
    order, folder = Order.read(path), path.parent
    number, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if order.cores and order.cores[number]:
        os.sched_setaffinity(0, order.cores[number])
    import torch  # after that: its threads keep the cores that they start with

    torch.set_num_threads(order.job.devices.threads)
    torch.set_num_interop_threads(1)
    device = device_of(order.job, number)
    trainer = trainer_of(order.job)(order.job, number, world, device)
    trainer.begin()
    rank, waits = Rank(order, number, world, device, trainer), ThreadWaits()
    results: list[Epoch] = []
    plan = epochs(order.job)
    for kind, round_ in plan:
        result = rank.epoch(kind, round_, waits)
        results.append(result)
        if (
            number % order.job.devices.ranks_of_host == 0
        ):  # of each host the first: who watches may be on either
            _progress(folder, len(results), len(plan), result)
        if rank.agree(None in result.losses):
            break  # with a loss that is no number nothing can be learned any more
    weights = [p.detach().double() for p in rank.module.parameters()]
    sums = [sum(float(w.sum()) for w in weights), sum(float(w.square().sum()) for w in weights)]
    answer = Answer(
        rank=number,
        world=world,
        pid=os.getpid(),
        epochs=results,
        parameters=[value if math.isfinite(value) else None for value in sums],
        parameter_count=sum(w.numel() for w in weights),
        device=str(rank.device),
        versions={
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "trainer": version(trainer.package),
        },
        probes=probe(rank, results),
        memory_limit_bytes=limit_bytes(),
    )
    target = answer_path(folder, number)
    _write(target, answer.model_dump_json())
    trainer.end()


def _progress(folder: Path, epochs_over: int, epochs_all: int, last: Epoch) -> None:
    rate = None
    if last.window_start_ns is not None and last.window_end_ns:
        rate = last.window_samples / (last.window_end_ns - last.window_start_ns) * 1e9
    text = json.dumps({"epochs": epochs_over, "of": epochs_all, "samples_per_s": rate})
    with contextlib.suppress(OSError):  # a disk that is full for a while ends no training for want of this
        _write(folder / PROGRESS_FILE, text)


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
