"""What became of a trace's jobs, and the figures by which policies are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """``start_s``: of the run that counted; None if it never ran. ``end_s`` of an unfinished one: when nothing more
    could happen."""

    job_id: str
    tenant: str
    submit_s: float
    start_s: float | None
    end_s: float
    status: Literal["finished", "rejected", "unfinished"]
    runs: int
    n_devices: int
    deadline_s: float | None
    node_id: str

    @property
    def jct_s(self) -> float:
        """Job completion time: from the submission to the end."""
        return self.end_s - self.submit_s

    @property
    def late(self) -> bool:
        """Whether its deadline was not kept: what was given up before has not kept it either."""
        return self.deadline_s is not None and (self.status != "finished" or self.end_s > self.deadline_s)

    @property
    def wait_s(self) -> float:
        return (self.end_s if self.start_s is None else self.start_s) - self.submit_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """One simulation. ``jobs`` in the order of their ends; ``unfinished`` those that had none when nothing more could
    happen, by name."""

    policy: str
    trace: str
    jobs: tuple[JobOutcome, ...]
    unfinished: tuple[JobOutcome, ...]

    def jct_s(self, where: Callable[[JobOutcome], bool] = lambda job: True) -> list[float]:
        """The job completion times of the finished jobs, from submission to end, in seconds."""
        return [j.jct_s for j in self.jobs if j.status == "finished" and where(j)]

    def mean_jct_s(self, where: Callable[[JobOutcome], bool] = lambda job: True) -> float:
        values = self.jct_s(where)
        return sum(values) / len(values) if values else float("nan")

    @property
    def finished(self) -> frozenset[str]:
        """The jobs that ended well."""
        return frozenset(job.job_id for job in self.jobs if job.status == "finished")

    def longest_wait_s(self, where: Callable[[JobOutcome], bool] = lambda job: True) -> float:
        """Of all jobs: one that a policy starves has waited to the end of the simulation at least."""
        return max((j.wait_s for j in (*self.jobs, *self.unfinished) if where(j)), default=0.0)

    def summary(self) -> dict[str, Any]:
        """Mean and percentiles (inverted CDF: a JCT that occurred) in seconds, longest wait, counts.

        ``late``: what finished behind its deadline, and what had one and was given up or will never end.
        """
        import numpy as np

        values = np.asarray(self.jct_s())
        quantiles: dict[str, float | None] = dict.fromkeys(("p50", "p95", "p99"))
        if len(values):
            for name in quantiles:
                quantiles[name] = float(np.percentile(values, float(name[1:]), method="inverted_cdf"))
        return {
            "policy": self.policy,
            "jobs": len(values),
            "mean_jct_s": self.mean_jct_s() if len(values) else None,
            **{f"{name}_jct_s": value for name, value in quantiles.items()},
            "longest_wait_s": self.longest_wait_s(),
            "rejected": sum(j.status == "rejected" for j in self.jobs),
            "unfinished": len(self.unfinished),
            "late": sum(j.late for j in (*self.jobs, *self.unfinished)),
        }


def times_as_long(outcome: Outcome, beside: Outcome) -> float | None:
    """The mean JCT by that of another simulation of the trace, over the jobs that finished in both; None without any.

    A job that one of them gave up, or never started, is in neither mean: it would make that one look faster.
    """
    both = outcome.finished & beside.finished
    own_s, other_s = (of.mean_jct_s(lambda job: job.job_id in both) for of in (outcome, beside))
    return own_s / other_s if both else None
