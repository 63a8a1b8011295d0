"""``inferbench login``: the URL of the local system and its logins."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.provider.system.config import passwords
from inferbench_tasks.provider.system.local import LocalSystem

app = typer.Typer()


@app.command()
def login(output: OutputFormat = OUTPUT) -> None:
    """Show who may log in to the local system, and how; only its owner can read that."""
    system = LocalSystem(settings.data_dir())
    rows = [{"user": user, "password": password} for user, password in passwords(system.home).items()]
    if system.running():
        say(f"url       {system.url()}")
    else:
        say("not up here (`inferbench up` starts it)")
    emit(rows, output)
