"""``inferbench bricks list|show|gaps``: what PerfDB knows of bricks."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, first_of, say

DEVICE = typer.Option("", "--device", help="Part of the processor's name.")
OPERATORS = typer.Option("", "--operators", help="Of the brick, such as Conv.")
MODEL = typer.Option("", "--model", help="One whose bricks they are.")
LIMIT = typer.Option(50, "--limit", min=1, max=10_000, help="The most rows.")
KEY = typer.Argument(..., metavar="KEY", help="A brick's key, or the unique start of it (8 digits at least).")
COVERAGE = typer.Option(False, "--devices", help="How much is known of which device instead.")


def list_bricks(
    device: str = DEVICE,
    operators: str = OPERATORS,
    model: str = MODEL,
    limit: int = LIMIT,
    devices: bool = COVERAGE,
    output: OutputFormat = OUTPUT,
) -> None:
    """List what submissions measured of bricks, the newest first; times in ms."""
    from inferbench_tasks.brick_jobs import queries
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        rows = queries.devices(db) if devices else queries.listed(db, device, operators, model, limit + 1)
    rows = rows if devices else first_of(rows, limit)
    if output is OutputFormat.table:
        rows = [{**row, "key": row["key"][:12]} if "key" in row else row for row in rows]
        rows = [{name: value for name, value in row.items() if name not in _LONG} for row in rows]
    emit(rows, output)


_LONG = ("identity", "session", "setting_id")


def show(key: str = KEY, output: OutputFormat = OUTPUT) -> None:
    """Show all that is known of one brick: the models that it is in, and its times by device."""
    from inferbench_tasks.brick_jobs import queries
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        found = queries.shown(db, key)
    if output is not OutputFormat.table:
        emit(found, output)
        return
    say(f"{found['key']}: {' > '.join(found['operators'])}")
    # What was taken while the machine was disturbed is used by no prediction: it must not look like the others.
    emit(
        [
            {**{name: row[name] for name in queries.COLUMNS[2:8]}, "disturbed": bool(row["disturbed"])}
            for row in found["results"]
        ],
        output,
    )
    for of in found["models"]:
        say(f"in {of['model']}, batch {of['batch_size']}, G {of['granularity']}")


def gaps(device: str = DEVICE, output: OutputFormat = OUTPUT) -> None:
    """Show which models' bricks have no time on which device."""
    from inferbench_tasks.brick_jobs import queries
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        rows = queries.gaps(db, device)
    emit(rows, output)
    if not rows and output is OutputFormat.table:
        say(
            "Nothing is missing: every brick of every model that was cut has a time on every device that has any."
        )
