"""``inferbench stack``: models across stacks, versions or systems, layer by layer, from traced runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()


@app.command()
def stack(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Models that were traced, by name.")
    ],
    by: Annotated[
        str, typer.Option("--by", help="What is set side by side: stack, version or system.")
    ] = "stack",
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="All tables as CSV, Parquet and JSON; figures as a page."),
    ] = None,
    output: OutputFormat = OUTPUT,
) -> None:
    """The newest valid traced run of each model, stack and batch; which layers make them differ from the fastest."""
    from inferbench_tasks.analysis.stack.document import labelled, stacks, summary, write
    from inferbench_tasks.analysis.stack.stored import BY, newest

    if by not in BY:
        raise InputError(f"{by!r} is nothing that stacks differ by; known: {', '.join(BY)}", field="--by")
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        subjects, left_out = newest(db, models, by)
    document = stacks(labelled(subjects), left_out)
    if to is not None:
        paths = write(document, to)
        say(f"{len(paths)} files written to {to}")
    if output is not OutputFormat.table:
        emit(document, output)
        return
    emit(summary(document), output)
    for each in document["comparisons"]:
        say("\n".join(each["sentences"]))
    for text in left_out:
        say(f"Left out: {text}")
