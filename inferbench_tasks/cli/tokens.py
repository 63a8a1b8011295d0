"""``inferbench tokens``: by which workers of other hosts join."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.provider.joining.authority import Authority
from inferbench_tasks.provider.joining.tokens import FOLDER, Token, Tokens
from inferbench_tasks.provider.system.local import LocalSystem

app = typer.Typer(no_args_is_help=True, help="By which workers of other hosts join: one token each.")
COLUMNS = ("name", "id", "state", "host", "created_at", "expires_at", "joined_at")
_LASTS = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_MINUTES = {"m": 1, "h": 60, "d": 1440}
_MOST = timedelta(days=3650)


@app.command()
def create(
    name: str = typer.Argument(help="Of the worker, as a rule its host's: a-z, 0-9 and -."),
    expires: str = typer.Option(
        "90d", help="How long it, and the access of who joined with it, lasts: 30m, 12h, 90d."
    ),
    to: Path | None = typer.Option(
        None, metavar="FILE", help="A new file for it, mode 600 [standard output]."
    ),
) -> None:
    """A token for one worker. It is told once: keep it in a file that only the worker's user can read."""
    duration, folder = lasts(expires), _folder()
    with _written(to) as file:
        token, secret = Tokens(folder).create(name, duration, Authority.of(folder).fingerprint)
        typer.echo(secret.text, file)
    say(
        f"token {token.token_id} of {name} ends on {token.expires_at:%Y-%m-%d %H:%M} UTC; it is not shown again"
    )


@app.command("list")
def list_(output: OutputFormat = OUTPUT) -> None:
    """All that were made, without their secrets."""
    emit([_row(token) for token in Tokens(_folder()).all()], output, COLUMNS)


@app.command()
def revoke(token: str = typer.Argument(help="Its name or id.")) -> None:
    """End a worker's access: its connections are cut within seconds, and what it runs there runs again elsewhere."""
    revoked = Tokens(_folder()).revoke(token)
    typer.echo(
        f"revoked   {revoked.name} ({revoked.token_id})" + (f" of {revoked.host}" if revoked.host else "")
    )


def lasts(text: str) -> timedelta:
    """``30m``, ``12h``, ``90d``; InputError for anything else, and beyond ten years."""
    match = _LASTS.fullmatch(text)
    duration = timedelta(minutes=int(match[1]) * _MINUTES[match[2]]) if match else None
    if duration is None or duration > _MOST:
        raise InputError(f"--expires is {text[:40]!r}; allowed are 30m, 12h, 90d and the like, up to 3650d.")
    return duration


@contextmanager
def _written(path: Path | None) -> Iterator[IO[str] | None]:
    """A new file that only its owner can read, which is gone again if what follows fails; None: standard output."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"--to {path} can't be written: {error.strerror}.") from None
    try:
        with open(descriptor, "w") as file:
            yield file
    except BaseException:
        path.unlink()
        raise


def _row(token: Token) -> dict[str, object]:
    return {
        "name": token.name, "id": token.token_id, "state": token.state(datetime.now(UTC)), "host": token.host,
        "created_at": token.created_at, "expires_at": token.expires_at, "joined_at": token.joined_at,
    }  # fmt: skip


def _folder() -> Path:
    return LocalSystem(settings.writable(settings.data_dir())).home / FOLDER
