"""``inferbench perfdb``: start, stop and inspect the performance database."""

from __future__ import annotations

from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

app = typer.Typer(
    no_args_is_help=True,
    help="Start, stop and inspect the performance database (PerfDB).\n\n"
    f"Without {settings.PERFDB_URI} it is an embedded MongoDB in the data directory: for this user, on "
    "this machine, started when it is needed and running until `perfdb stop`. "
    f"With {settings.PERFDB_URI} set, that server is used and nothing else.",
)


@app.command()
def start() -> None:
    """Start the embedded server if it does not run; print its URI, without its login."""
    _refuse_external("start")
    from inferbench_tasks.perfdb import embedded
    from inferbench_tasks.perfdb.address import masked

    typer.echo(masked(embedded.ensure(settings.writable(settings.data_dir()))))


@app.command()
def stop() -> None:
    """End the embedded server. Its data stay."""
    _refuse_external("stop")
    from inferbench_tasks.perfdb import embedded

    say("Stopped." if embedded.stop(settings.data_dir()) else "It was not running.")


@app.command()
def status(output: OutputFormat = OUTPUT) -> None:
    """Show which server it is, whether it runs (exit code 1 if not), and what it holds; starts nothing."""
    from inferbench_tasks.perfdb import embedded
    from inferbench_tasks.perfdb.address import masked

    uri = settings.perfdb_uri()
    server = {"server": "external", "uri": masked(uri)} if uri else embedded.status(settings.data_dir())
    if "uri" in server:
        server["uri"] = masked(str(server["uri"]))
    if uri or server["running"]:
        from inferbench_tasks.perfdb.store import PerfDB

        with PerfDB.connect(uri, settings.data_dir()) as db:
            server |= {"running": True, **db.server(), **db.sizes()}
            server["server"] = "external" if uri else "embedded"
    emit(server, output)
    if not server["running"]:
        raise typer.Exit(1)


@app.command()
def uri(
    show_password: bool = typer.Option(False, "--show-password", help="Print the URI with its login."),
) -> None:
    """Print the URI, for mongosh and other tools (with --show-password: ready for use). Exit code 1 if the embedded
    server does not run."""
    from inferbench_tasks.perfdb import embedded
    from inferbench_tasks.perfdb.address import masked

    if external := settings.perfdb_uri():
        typer.echo(external if show_password else masked(external))
        return
    server = embedded.status(settings.data_dir())
    if not server["running"]:
        raise PerfDBError("The embedded PerfDB is not running; `inferbench perfdb start` starts it.")
    typer.echo(server["uri"] if show_password else masked(server["uri"]))


@app.command()
def backup(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="The archive to write, for instance perfdb.tar.gz."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Write everything that PerfDB holds, raw samples included, to one compressed archive."""
    from inferbench_tasks.perfdb import backup as archive
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.writable(settings.data_dir())) as db:
        emit(archive.backup(db, file), output)
    say(f"{file}: {file.stat().st_size:,} bytes")


@app.command()
def restore(
    file: Path = typer.Argument(..., metavar="FILE", help="An archive of `perfdb backup`."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Fill an EMPTY PerfDB from an archive, after checking all of it."""
    from inferbench_tasks.perfdb import backup as archive
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.writable(settings.data_dir())) as db:
        emit(archive.restore(db, file), output)


def _refuse_external(action: str) -> None:
    if settings.perfdb_uri():
        raise InputError(
            f"{settings.PERFDB_URI} is set, so the embedded PerfDB is not used; unset it to {action} that."
        )
