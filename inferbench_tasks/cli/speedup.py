"""``inferbench speedup``: how much more each device serves within a reference's latency."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.devices.speedup import USUAL_REFERENCE, USUAL_STATISTIC, known_statistic
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()
_SHOWN = ("model", "framework", "precision", "protocol", "asked", "device", "reference", "bound_ms", "speedup", "ci95",
          "throughput_samples_per_s", "latency_ms", "keeps_slo_probability", "configuration", "reason")  # fmt: skip


@app.command()
def speedup(
    query: list[str] = typer.Argument(
        None, metavar="[QUERY]", help="As in `results list`.", show_default=False
    ),
    reference: str = typer.Option(
        USUAL_REFERENCE, "--reference", metavar="DEVICE", help="cpu, gpu, or part of a device's name."
    ),
    by: str = typer.Option(
        USUAL_STATISTIC,
        "--by",
        metavar="FIGURE",
        help="The latency that is the objective: p99_ms, p50_ms, ...",
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Compare devices over each model under the latency of a reference device: one user with one sample there.

    Each device stands at the best of its configurations that keep that latency, users who wait and do not think;
    speedup is its samples/s over the reference's, with a 95% interval. Only valid runs of one model's content,
    precision and requests are compared. Exit code 1 if there is nothing to compare.
    """
    from inferbench_tasks.analysis.devices.speedup import of_stored

    parse(query or [])  # a wrong query or figure is refused before anything is started
    known_statistic(by)
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        found = of_stored(db, query or [], reference, by)
    for note in found.notes:
        say(note)
    for row in found.rows:
        if row["other_version"]:
            say(f"{row['model']}, {row['precision']}, {row['device']}: {row['other_version']}")
    table = output is OutputFormat.table
    emit([{name: row[name] for name in _SHOWN} for row in found.rows] if table else found.rows, output)
    if not found.rows:
        raise typer.Exit(1)
