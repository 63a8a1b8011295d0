"""Jobs that hold a device of another host beside their own, and what a test does with them and their devices."""

from __future__ import annotations

from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.waiting import waiting_jobs
from inferbench_tasks.scheduling.model import QueuedJob
from tests.schedulers import confirm, job, kinds

APART = "dag|apart|000"
CPU = frozenset({"cpu"})


def apart(name: str = "apart", **more: object) -> QueuedJob:
    return job(name, **{"elsewhere": CPU, **more})  # type: ignore[arg-type]


def why(scheduler: Dispatcher, name: str = APART) -> str:
    rows, _ = waiting_jobs(scheduler.index, scheduler.devices, scheduler.clock(), aside=scheduler.aside)
    return next(str(row["why"]) for row in rows if row["job"] == name)


def start(cluster: Cluster, scheduler: Dispatcher, spec: QueuedJob | None = None) -> None:
    """Submitted, granted, confirmed by both workers, started."""
    scheduler.submit(spec or apart(), "run")
    scheduler.tick()
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", APART)]
    scheduler.started(APART)
