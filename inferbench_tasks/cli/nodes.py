"""``inferbench nodes``: the hosts of the cluster."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.cluster.node_rows import COLUMNS, row
from inferbench_tasks.cluster.node_state import node_states
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()


@app.command()
def nodes(output: OutputFormat = OUTPUT) -> None:
    """Hosts with their versions, machine, links, clock against the leader's, cache and devices; JSON has all of it."""
    data_dir = settings.data_dir()
    if settings.perfdb_uri() is None and not embedded.status(data_dir)["running"]:
        say("PerfDB is not running: no hosts to show.")
        return
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        states = node_states(db)
    if output is OutputFormat.table:
        emit([row(state) for state in states], output, COLUMNS)
    else:
        emit([state.model_dump(mode="json") for state in states], output)
