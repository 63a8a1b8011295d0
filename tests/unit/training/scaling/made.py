"""Trainings on some numbers of ranks, with steps of known parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.report.results import view

STEPS = 40


def result(
    run: str,
    ranks: int,
    batch_size: int,
    rate: float,
    *,
    cores: float = 64,
    name: str = "x",
    count: int = 1,
    kind: str = "cpu",
) -> TrainingResult:
    """Its step takes what its samples/s make of it; the interval is 1% to both sides. ``count``: devices that the
    ranks are on.
    """
    job = TrainingJob.model_validate(
        {
            "kind": "training",
            "name": name,
            "data": {"kind": "digits"},
            "train": {"batch_size": batch_size},
            "devices": {
                "count": count,
                "kind": kind,
                "processes": ranks // count,
                "strategy": "ddp" if ranks > 1 else "single",
            },
        }
    )
    made = view(run, ranks=ranks).result
    assert made.summary is not None
    bare = {"samples_per_s": rate, "samples_per_s_ci95": [0.99 * rate, 1.01 * rate], "rounds": 3}
    timing = {**made.summary.synchronised, "step_ms": {"mean": batch_size * ranks / rate * 1e3}}
    return made.model_copy(
        update={
            "run_id": run,
            "summary": made.summary.model_copy(update={"bare": bare, "synchronised": timing}),
            "device": DeviceInfo(kind="cpu", name="cpu", cores=cores),
            "provenance": Provenance(**{"job": job.model_dump(mode="json")}),
        }
    )


def invalid(made: TrainingResult) -> TrainingResult:
    return made.model_copy(update={"verdict": Verdict.judged([Reason(check="steps", text="too few")])})


def raw(
    ranks: int,
    computing: float,
    loading: float = 0.0,
    exchange: float = 0.0,
    imbalance: float = 0.0,
    cores: float = 0.0,
) -> Sequence[Steps]:
    """The steps of all ranks by their parts, ms: the last rank is never waited for, and waits for no other one."""
    each = []
    for rank in range(ranks):
        waits = imbalance * ranks / (ranks - 1) if ranks > 1 and rank < ranks - 1 else 0.0
        blocked = exchange + waits
        # Who waits for another rank had less to compute.
        own = computing + imbalance - waits
        phases = {
            "loading": (loading + cores, loading, cores),
            "forward": (own / 2, own / 2, 0.0),
            "backward": (own / 2 + blocked, own / 2, 0.0),
        }
        times = {
            f"{phase}_{name}_ns": np.full(STEPS, value * 1e6)
            for phase, values in phases.items()
            for name, value in zip(("wall", "own_cpu", "own_wait"), values, strict=True)
        }
        step_ms = computing + loading + exchange + imbalance + cores
        each.append(
            {"step": np.arange(STEPS, dtype=np.float64), "step_ns": np.full(STEPS, step_ms * 1e6), **times}
        )
    return each
