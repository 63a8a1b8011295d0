"""What a task that runs on a device tells our executor of itself and its job: its ``executor_config``.

The executor knows no DAG, no pipeline and no stage by name; what it has to do with a task stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.plan.graph import Node, RunPlan
from inferbench_tasks.provider.queues import CONFIG


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """What a job asks the scheduler for, told by the task that opens its lease.

    ``job``: its document. ``followers``: the ids of the tasks after the lease, which a job that is run again needs
    anew. ``recorded``: it is one run in PerfDB; a night is many, each recorded by itself.

    ``series`` stands before the job's id where estimates are learnt, if more is done than the job itself.
    ``least_limit_s``: it is not stopped earlier, however long it was expected to take. ``scaled_by``: parameters of a
    trigger -> the value that the expected length stands for; with another one it is longer or shorter in proportion.
    ``leaves_out``: the parameter of a trigger that names kinds of devices (processors) on which it is not to run.
    ``chosen_by``: the id of a task of the same run that returns the system which it chose for the job. ``asked_by``:
    the id of one whose output says what the host of the job's device has to be able to do; ``ability``: what it said.
    """

    job: dict[str, Any]
    followers: list[str] = field(default_factory=list)
    recorded: bool = True
    series: str = ""
    least_limit_s: float = 0.0
    scaled_by: dict[str, float] = field(default_factory=dict)
    leaves_out: str = ""
    chosen_by: str = ""
    asked_by: str = ""
    ability: str = ""

    def on(self, system: dict[str, Any] | None) -> LeaseRequest:
        """The same for a job whose system was chosen; InputError where it was to be, and was not."""
        if not self.chosen_by:
            return self
        if system is None:
            raise InputError(f"{self.chosen_by} chose no system for the job")
        return replace(self, job={**self.job, "system": system})

    def asking(self, output: Mapping[str, Any] | None) -> LeaseRequest:
        """The same with what the task ``asked_by`` said; an output of an earlier version, or of a task that a user
        marked as done, says nothing: then any device will do, and the stage on it sees whether it does.
        """
        return replace(self, ability=str((output or {}).get("ability") or ""))


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """A task that runs on its job's device.

    ``position``: its place among those of the job. ``cleans_up``: it follows whatever became of the others. ``request``
    makes it the one that opens the lease. ``elsewhere``: it runs on the device of that other
    host, counted from 1, that the job holds; 0: on its own.
    """

    job_index: int
    stage: str
    position: int
    cleans_up: bool = False
    request: LeaseRequest | None = None
    elsewhere: int = 0

    def config(self) -> dict[str, Any]:
        """The task's ``executor_config``; other executors ignore it."""
        config = asdict(self)
        if not self.elsewhere:
            del config["elsewhere"]
        return {CONFIG: config}

    @classmethod
    def of(cls, executor_config: Mapping[str, Any] | None) -> LeasedTask | None:
        """What a task's ``executor_config`` says; None for one without a device."""
        config = (executor_config or {}).get(CONFIG)
        if config is None:
            return None
        request = config.get("request")
        return cls(**{**config, "request": LeaseRequest(**request) if request else None})


def leased_task(node: Node, plan: RunPlan) -> LeasedTask | None:
    """What the task of a plan's node tells; None for one without a device."""
    if node.lease is None or node.job_index is None:
        return None
    job = plan.of_job(node.job_index)
    leased = [other.id for other in job if other.lease is not None]
    request = None
    if node.opens:
        later = [other.id for other in job[job.index(node) :] if other.id not in leased]
        asking = next((other.id for other in job[: job.index(node)] if other.asks), "")
        followers = [*later, *(other.id for other in plan.of_submission())]
        request = LeaseRequest(node.input["job"], followers, asked_by=asking)
    return LeasedTask(
        node.job_index, node.stage, leased.index(node.id), node.cleans_up, request, node.elsewhere
    )
