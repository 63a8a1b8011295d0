"""Runs whose steps are made up, so that what holds them up is known."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Batch, Observation, PhaseTimes, Steps
from inferbench_tasks.training.job import TrainingJob

#: Of what follows the loading, ms, without waits: 10 ms in sum.
COMPUTING_MS = {"to_device": 0.5, "forward": 3.0, "loss": 0.5, "backward": 5.0, "optimiser": 1.0}


def observe(
    batch: Batch | None,
    *,
    loading_ms: float,
    loading_cpu_ms: float = 0.0,
    cores: float = 8,
    workers: int = 0,
    processes: int = 1,
    threads: int = 1,
    waits_ms: float = 0.0,
    hand_over_ms: float | None = 1.0,
    fields: dict[str, Any] | None = None,
    ranks: tuple[Steps, ...] = (),
    **more: Any,
) -> Observation:
    """A run whose step is ``loading_ms``, 10 ms of computing, and ``waits_ms`` for a core within the forward pass."""
    job: dict[str, Any] = {
        "kind": "training",
        "name": "x",
        "data": {"kind": "jpeg", "samples": 512},
        "model": {"name": "resnet-18"},
        "loader": {"workers": workers},
        "devices": {
            "processes": processes,
            "threads": threads,
            "strategy": "ddp" if processes > 1 else "single",
        },
    }
    for name, of in (fields or {}).items():
        job[name] = {**job.get(name, {}), **of}
    phases = {name: PhaseTimes(of, of) for name, of in COMPUTING_MS.items()}
    phases["forward"] = PhaseTimes(COMPUTING_MS["forward"] + waits_ms, COMPUTING_MS["forward"], waits_ms)
    return Observation(
        job=TrainingJob.model_validate(job),
        cores=cores,
        step_ms=loading_ms + 10.0 + waits_ms,
        phases={"loading": PhaseTimes(loading_ms, loading_cpu_ms), **phases},
        batch=batch,
        ranks=ranks,
        probes={"hand_over_ms": None if workers else hand_over_ms, **more.pop("probes", {})},
        **more,
    )


def first(run: Observation) -> Cause:
    """The costliest cause."""
    return causes_of(run)[0]
