"""How a submission ended, as PerfDB, Airflow and the hosts' processes have it."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from benchmarks.chaos.judging import Measured, Round, Run
from inferbench_tasks.contracts.located import references
from inferbench_tasks.training.result import TrainingResult
from tests.joined_hosts import Joined


def used(joined: Joined, name: str) -> frozenset[str]:
    """The digests of the artifacts that stages of a submission's jobs gave each other."""
    runs = joined.driver.db.find_runs({"submission.name": name})
    return frozenset().union(*(references(stage.output) for run in runs for stage in run.stages))


def seen(joined: Joined, name: str, work: str, state: str) -> Round:
    """How a submission ended, as PerfDB has it, and what is left of it."""
    runs = joined.driver.db.find_runs({"submission.name": name})
    return Round(
        state=state,
        measured=tuple(trained(joined, name) if work == "training" else loaded(joined, name)),
        runs=tuple(Run(run.job_id, run.status, str(run.verdict or "")) for run in runs),
        left=tuple(left(joined)),
    )


def loaded(joined: Joined, name: str) -> Iterator[Measured]:
    """Of loads."""
    for result in joined.driver.results(name):
        summary, answers = result.summary.model_dump(), result.extensions.get("accuracy") or {}
        yield Measured(
            job=result.job_id,
            verdict=result.verdict.kind,
            requests=summary["e2e_latency_ms"]["count"] + sum(summary["errors"].values()),
            error_ratio=summary["error_ratio"],
            answers=f"{answers['samples_digest'][:12]} {answers['right']}" if answers else "",
        )


def trained(joined: Joined, name: str) -> Iterator[Measured]:
    """Of trainings."""
    for result in joined.driver.db.results_of(TrainingResult, {"submission.name": name}):
        if result.verdict.measured:
            yield Measured(result.job_id, result.verdict.kind, loss=result.summary.loss.get("last"))


def left(joined: Joined) -> Iterator[str]:
    """What does not hold of the system, and what is left of any run on any host."""
    for check in (joined.driver.all_is_well, lambda: nothing_left(joined)):
        try:
            check()
        except AssertionError as error:
            yield (str(error).splitlines() or ["the check says no more"])[0][:300]


def nothing_left(joined: Joined) -> None:
    """Of any run, on any host."""

    def left() -> list[str]:
        homes = [str(host.home) for host in joined.hosts]
        words = ("inferbench_tasks.servers.main", "inferbench_tasks.training.rank_main")
        lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
        return [
            line for line in lines if any(w in line for w in words) and any(home in line for home in homes)
        ]

    joined.driver.until(lambda: not left(), lambda: f"left: {left()}", 60)
