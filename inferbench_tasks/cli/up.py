"""``inferbench up``: the whole system on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.listening import listening
from inferbench_tasks.provider.system.config import passwords
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.workers.devices import chosen, find, partitions

app = typer.Typer()


@app.command()
def up(
    workers: int = typer.Option(
        1,
        "--workers",
        "-w",
        min=0,
        max=256,
        help="CPU workers, each with cores of its own; 0: those that join.",
    ),
    device: list[str] = typer.Option(
        [], "--device", "-d", help="Workers by device instead: cpu:0-3, gpu:0, ... (repeat it), or auto."
    ),
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port of the web UI; a free one by default."
    ),
    dags: Path | None = typer.Option(None, help="The DAGs folder [dags in the checkout]."),
    submissions: Path | None = typer.Option(
        None, help="The submissions folder [configs/submissions beside it]."
    ),
    listen: str | None = typer.Option(
        None, help="ADDRESS[:PORT] of this host where workers of others may join, by TLS and with a token."
    ),
) -> None:
    """Start the whole system here: Airflow, broker, PerfDB, workers; print its URL and, the first time, its logins.

    Set INFERBENCH_METADATA_DB (PostgreSQL), INFERBENCH_BROKER_URL (redis://...) or INFERBENCH_PERFDB_URI to use
    servers of your own.
    """
    dags = (dags or checkout() / "dags").absolute()
    submissions = (submissions or dags.parent / "configs" / "submissions").absolute()
    for folder in (dags, submissions):
        if not folder.is_dir():
            raise InputError(
                f"The folder {folder} does not exist; name another with --dags or --submissions."
            )
    if not workers and not device and listen is None:
        raise InputError("--workers 0 leaves nobody to run a job; allowed with --listen.")
    gateway = listening(listen) if listen is not None else None
    system = LocalSystem(settings.writable(settings.data_dir()))
    devices = chosen(device) if device else partitions(workers) if workers else []
    for text in devices:
        find(text)
    first = not (system.home / "passwords.json").exists()
    system.up(
        dags=dags, submissions=submissions, port=port, workers=devices, gateway=gateway,
        say=lambda text: print(text, file=sys.stderr),
    )  # fmt: skip
    typer.echo(f"url       {system.url()}")
    if first:
        for user, password in passwords(system.home).items():
            typer.echo(f"login     {user} / {password}")
        typer.echo("          (shown once; `inferbench login` shows them again)")
    else:
        typer.echo("login     inferbench login")
    typer.echo(f"logs      {system.home / 'logs'}")
    typer.echo(f"workers   {', '.join(find(text).device_id for text in devices) or 'none here'}")
    if gateway:
        typer.echo(
            f"join      {gateway.url}   (`inferbench tokens create NAME --to FILE`; there `inferbench worker --join`)"
        )
    typer.echo("look      inferbench status")
    typer.echo("stop      inferbench down")


def checkout() -> Path:
    """The folder of the checkout that this package is installed from."""
    return Path(__file__).resolve().parents[2]
