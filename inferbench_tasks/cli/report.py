"""``inferbench report``: the report of an invocation, made again from PerfDB."""

from __future__ import annotations

from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()


@app.command()
def report(
    invocation: str = typer.Argument(
        "latest", metavar="[INVOCATION]", help="An invocation's id, one of its runs' ids, or 'latest'."
    ),
    to: Path = typer.Option(None, "--to", metavar="FILE", help="Where to write it: .html or .md."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Make the report of an invocation again: from PerfDB alone, so anywhere.

    Without --to it goes to the invocation's folder. A .md file is for a pull request.
    """
    from inferbench_tasks.analysis.report.compose import REPORT_FILE, make_report
    from inferbench_tasks.analysis.report.markdown import make_markdown

    if to is not None and to.suffix not in (".html", ".md"):
        raise InputError(f"--to {to}: must end in .html or .md")
    data_dir = settings.data_dir()
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        invocation_id = _invocation(db, invocation)
        document = db.get_invocation(invocation_id)
        path = to or data_dir / "invocations" / invocation_id / REPORT_FILE
        make = make_markdown if path.suffix == ".md" else make_report
        views = make(db, sorted(document.run_ids), document.document, path)
    emit(
        {
            "report": str(path),
            "invocation": invocation_id,
            "verdicts": {view.run_id: view.said for view in views},
        },
        output,
    )


def _invocation(db: PerfDB, text: str) -> str:
    """The invocation that is meant: its id, or a run's id (whole, its unique start, or ``latest``)."""
    try:
        return db.get_invocation(text).invocation_id
    except InputError:
        run_id = db.resolve_run(text)
    return db.get_run(run_id).invocation_id
