"""The runs of one invocation as a report sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.result import TrainingResult, TrainingSummary
from inferbench_tasks.training.stored_job import fields_of

#: The phases of a step in their order; a benchmark has some of them.
PHASES = ("loading", "to_device", "processing", "forward", "loss", "backward", "gather", "optimiser")


def own_wait_ms(phase: Mapping[str, Any]) -> float | None:
    """What the thread that runs the step waited for a core in a phase, ms; None where the kernel tells none.

    Those that exchange gradients wait beside it. Of older results, which have the sum of all threads, as much of it as
    the phase has room for.
    """
    wait: float | None = phase.get("own_wait_ms", phase["wait_ms"])
    if wait is None or "own_wait_ms" in phase:
        return wait
    return min(wait, max(0.0, float(phase["wall_ms"]["mean"]) - float(phase["cpu_ms"])))


@dataclass
class TrainingView:
    """One run that has a result. ``label`` names it by what differs from the others; ``job``: its spec."""

    run_id: str
    job: dict[str, Any]
    result: TrainingResult
    label: str = ""
    differs: dict[str, Any] | None = None

    @property
    def valid(self) -> bool:
        """Whether its figures count."""
        return self.result.verdict.valid

    @property
    def state(self) -> str:
        """The kind of its verdict."""
        return self.result.verdict.kind

    @property
    def said(self) -> str:
        """Its verdict in words."""
        return str(self.result.verdict)

    @property
    def summary(self) -> TrainingSummary | None:
        """Its figures; None of a run that failed."""
        return self.result.summary

    @property
    def timing(self) -> dict[str, Any] | None:
        """The steps with instruments; None without enough of them."""
        timing = self.summary.synchronised if self.summary else None
        return timing if timing and timing["phases"] else None

    @property
    def samples_per_s(self) -> float | None:
        """Of the epochs without instruments."""
        return self.summary.bare["samples_per_s"] if self.summary else None

    @property
    def workers(self) -> int:
        """Loader processes of each rank that there were."""
        return self.result.workers or 0

    @property
    def threads(self) -> int | None:
        """torch's threads in each process."""
        return self.result.engine.threads if self.result.engine else None


def load_views(db: PerfDB, run_ids: Sequence[str]) -> list[TrainingView]:
    """The latest results of these runs in that order; a run without one is left out."""
    newest: dict[str, TrainingResult] = {}
    for result in db.results_of(TrainingResult, {"run_id": {"$in": list(run_ids)}}):
        known = newest.get(result.run_id)
        if known is None or known.attempt < result.attempt:
            newest[result.run_id] = result
    views = [
        TrainingView(run_id, fields_of(newest[run_id]), newest[run_id])
        for run_id in run_ids
        if run_id in newest
    ]
    name_by_difference(views)
    return views
