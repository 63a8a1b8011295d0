"""``inferbench up``: the whole system on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.system.config import passwords
from inferbench_tasks.provider.system.local import LocalSystem

app = typer.Typer()


@app.command()
def up(
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port of the web UI; a free one by default."
    ),
    dags: Path | None = typer.Option(None, help="The DAGs folder [dags in the checkout]."),
    submissions: Path | None = typer.Option(
        None, help="The submissions folder [configs/submissions beside it]."
    ),
) -> None:
    """Start Airflow's api-server, scheduler and dag-processor with InferBench's DAGs; print URL and login."""
    dags = (dags or checkout() / "dags").absolute()
    submissions = (submissions or dags.parent / "configs" / "submissions").absolute()
    for folder in (dags, submissions):
        if not folder.is_dir():
            raise InputError(
                f"The folder {folder} does not exist; name another with --dags or --submissions."
            )
    system = LocalSystem(settings.writable(settings.data_dir()))
    system.up(dags=dags, submissions=submissions, port=port, say=lambda text: print(text, file=sys.stderr))
    typer.echo(f"url       {system.url()}")
    for user, password in passwords(system.home).items():
        typer.echo(f"login     {user} / {password}")
    typer.echo(f"logs      {system.home / 'logs'}")
    typer.echo("stop      inferbench down")


def checkout() -> Path:
    """The folder of the checkout that this package is installed from."""
    return Path(__file__).resolve().parents[2]
