"""``inferbench cancel``: end a submission on a running system."""

from __future__ import annotations

import typer

from inferbench_tasks.cli.submit import PASSWORD, client_of
from inferbench_tasks.output import say

app = typer.Typer()


@app.command()
def cancel(
    run: str = typer.Argument(
        ..., metavar="RUN", help="As `inferbench submit` told it, or one of its runs in PerfDB."
    ),
    url: str | None = typer.Option(None, help="Of the system [the local one of the data directory]."),
    user: str = typer.Option(
        "admin", help=f"Login; its password comes from {PASSWORD} where --url is given."
    ),
) -> None:
    """End a submission with all its jobs: one's own, or any as admin. What runs cleans up."""
    with client_of(url, user) as bench:
        ended = bench.cancel(run)["ended"]
    for dag in ended:
        typer.echo(dag)
    say("ended" if ended else "it had ended already")
