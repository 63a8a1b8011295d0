"""``inferbench status``: devices, leases, queues, and why each job waits."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system.config import EXECUTION_URL
from inferbench_tasks.provider.system.health import execution_health, health
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.provider.system.ready import EXECUTION_API

app = typer.Typer()


@app.command()
def status(output: OutputFormat = OUTPUT) -> None:
    """What runs, on which device, what waits, how long, and why."""
    system = LocalSystem(settings.data_dir())
    running = system.running()
    if running:
        parts = health(system.url())
        parts[EXECUTION_API] = execution_health(system.environment()[EXECUTION_URL])
        say(f"system    {system.url()}")
        say("processes " + ", ".join(p.name for p in running))
        say(
            "airflow   "
            + (", ".join(f"{k} {v}" for k, v in parts.items() if v != "None") or "does not answer")
        )
    else:
        say("system    not up here (`inferbench up` starts it)")
    if settings.perfdb_uri() is None and not embedded.status(system.data_dir)["running"]:
        say("PerfDB is not running: no devices to show.")
        return
    with PerfDB.connect(settings.perfdb_uri(), system.data_dir) as db:
        state = cluster_state(db)
    if output is not OutputFormat.table:
        emit(state.model_dump(), output)
        return
    emit(
        [{**d.model_dump(), "held_with": ", ".join(d.held_with) or None} for d in state.devices], output,
        ("device_id", "state", "job", "held_with", "expected_left_s", "reason", "heartbeat_age_s"),
    )  # fmt: skip
    emit([q.model_dump() for q in state.queues], output)
    for text in state.unreadable:
        say(text)
    emit(
        [w.model_dump() for w in state.waiting], output,
        ("job", "user", "login", "devices", "priority", "expected_s", "waited_s", "why"),
    )  # fmt: skip
