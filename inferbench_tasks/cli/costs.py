"""``inferbench costs``: what 1,000 samples cost on each provider's instances, measured and predicted."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()
_SHOWN = ("model", "precision", "protocol", "asked", "load", "provider", "instance", "device", "basis",
          "requests_merged", "usd_per_1k_samples", "ci95", "usd_per_hour", "price", "rests_on")  # fmt: skip


@app.command()
def costs(
    query: list[str] = typer.Argument(
        None, metavar="[QUERY]", help="As in `results list`.", show_default=False
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Set the cost of 1,000 samples on each instance of configs/prices.yaml side by side, for each model and load.

    Instances whose device was not measured are predicted, and say so: GPUs by a roofline, from three that were
    measured; processors by the times of the model's bricks. What can't be predicted is said with the reason. Exit
    code 1 if there is nothing to show.
    """
    from inferbench_tasks.brick_jobs.instance_costs import costs as side_by_side

    parse(query or [])
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        offers = side_by_side(db, query or [])
    for offer in offers:
        for note in offer.notes:
            say(f"{offer.words}: {note}")
    rows = [row for offer in offers for row in offer.rows]
    table = output is OutputFormat.table
    emit([{name: row[name] for name in _SHOWN} for row in rows] if table else rows, output)
    if not rows:
        raise typer.Exit(1)
