"""``inferbench trace open``: a trace in the browser, on the system's page or, where none is up, in Perfetto."""

from __future__ import annotations

import webbrowser
from urllib.parse import quote

import typer

from inferbench_tasks import extras, settings
from inferbench_tasks.output import say
from inferbench_tasks.perfdb.store import PerfDB


def open_(
    trace: str = typer.Argument(
        ...,
        metavar="TRACE",
        help="A run's or a training's id, the unique start of one, 'latest', or an imported trace.",
    ),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open it, or say its address alone."),
) -> None:
    """Look at a trace in the browser: on its page where the system is up, else in Perfetto, served from here.

    Perfetto's page is the optional part ``trace-ui``; nothing is asked of any other machine.
    """
    from inferbench_tasks.pipelines.traces import find_trace
    from inferbench_tasks.provider.system.local import LocalSystem
    from inferbench_tasks.tracing.export import FORMS

    def opened(address: str) -> None:
        # Alone on standard output, for scripts.
        typer.echo(address)
        if browser and not webbrowser.open(address):
            say("No browser could be opened here: open the address yourself.")

    system = LocalSystem(settings.data_dir())
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        found = find_trace(db, trace)
        if system.running():
            opened(f"{system.url()}/inferbench/trace/{quote(found.id, safe='')}")
            return
        extras.require("trace-ui")
        table = found.whole()
        content = FORMS["perfetto"].content(table, found.about)
    from inferbench_tasks.provider.ui.trace_viewer import serve

    say(f"{table.num_rows:,} spans; Ctrl-C ends it.")
    serve(found.id, content, table.num_rows, opened)
