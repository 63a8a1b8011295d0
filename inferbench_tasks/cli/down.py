"""``inferbench down``: end the local system, whatever state it is in."""

from __future__ import annotations

import sys

import typer

from inferbench_tasks import settings
from inferbench_tasks.provider.system.local import LocalSystem

app = typer.Typer()


@app.command()
def down() -> None:
    """End every process of the local system; harmless when none runs."""
    ended = LocalSystem(settings.data_dir()).down(say=lambda text: print(text, file=sys.stderr))
    typer.echo(f"{ended} process(es) ended")
