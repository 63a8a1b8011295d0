"""The cluster over REST: devices, leases, queues, who waits and why; and what runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.cluster.node_state import NodeState, node_states
from inferbench_tasks.cluster.state import DeviceState, cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.timeline import Stay, stays
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.submit.coming import coming
from inferbench_tasks.training.clusters import rows as clusters_of

router = APIRouter(tags=["cluster"])
MOST_RUNNING = 200
#: A timeline goes back four weeks at most.
MOST_HOURS = 24 * 28


@router.get("/cluster", summary="Devices, leases, queues, and what runs")
def cluster(request: Request, db: Store, format: Format = None) -> Response:
    """CSV has the devices only."""
    state = cluster_now(db)
    return table(
        request, format, state["devices"], state, name="cluster", columns=list(DeviceState.model_fields)
    )


@router.get("/cluster/timeline", summary="Which run had which device when")
def timeline(
    request: Request,
    db: Store,
    hours: Annotated[float, Query(gt=0, le=MOST_HOURS, description="How far it looks back.")] = 24,
    format: Format = None,
) -> Response:
    """``items``: by device and time. Runs of ``inferbench run`` lease no device, and are not among them.

    ``unseen_before``: runs that began earlier are not told, for there are thousands of later ones; null: all are.
    """
    found = stays(db, db.now() - timedelta(hours=hours))
    rows = [stay.model_dump() for stay in found.stays]
    body = {"items": rows, "unseen_before": found.unseen_before}
    return table(request, format, rows, body, name="timeline", columns=list(Stay.model_fields))


@router.get("/nodes", summary="Hosts: versions, machine, links, clock, cache, devices")
def nodes(request: Request, db: Store, format: Format = None) -> Response:
    """``items``: a line for each host that workers told of, the leader's first. What was not told is null."""
    rows = [state.model_dump(mode="json") for state in node_states(db)]
    return table(request, format, rows, {"items": rows}, name="nodes", columns=list(NodeState.model_fields))


@router.get("/clusters", summary="Clusters by name: their devices and trainings")
def clusters(request: Request, db: Store, format: Format = None) -> Response:
    """``items``: a line for each name that a worker or a training has (``inferbench worker --cluster NAME``)."""
    rows = plain(clusters_of(db, Cluster(db).devices()))
    return table(request, format, rows, {"items": rows}, name="clusters")


def cluster_now(db: PerfDB) -> dict[str, Any]:
    """``devices``, ``queues``, ``waiting`` of our executor (empty under another), and ``running`` runs.

    ``coming``: submissions with jobs that are in no queue yet; null where Airflow's database can't be asked.
    """
    state = cluster_state(db).model_dump(mode="json")
    running = []
    for run in db.find_runs({"status": "running"}, limit=MOST_RUNNING):
        now = next((record for record in reversed(run.stages) if record.state == "running"), None)
        running.append(
            {
                "run": run.run_id,
                "submission": run.submission.name,
                "user": run.submission.user,
                "login": run.submission.login,
                "stage": now.stage if now else None,
                "since": (now.started_at if now else run.started_at).isoformat(),
            }
        )
    sent = coming()
    return {**state, "running": running, "coming": None if sent is None else [asdict(one) for one in sent]}
