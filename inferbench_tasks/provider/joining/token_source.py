"""Where a worker's command gets its token from: never from its own command line, which all users of a host can read."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.tokens import VERSION, Secret

#: The token itself, where no --token is named.
TOKEN = "INFERBENCH_JOIN_TOKEN"  # noqa: S105 - the name of a variable
STDIN = "-"
_MOST_BYTES = 4096


def read_token(place: str | None) -> Secret:
    """The token in that file, from standard input (``-``), or of the environment; InputError, which never quotes it."""
    if place is None:
        text = os.environ.get(TOKEN, "")
        if not text:
            raise InputError(f"--join needs a token: --token FILE, --token - (standard input), or {TOKEN}.")
        return Secret.parse(text)
    if place.startswith(f"{VERSION}."):
        raise InputError(
            "--token is the name of a file (or -), not the token itself: other users of this host can read command "
            "lines. Revoke this one if there are such users."
        )
    if place == STDIN:
        return Secret.parse(sys.stdin.read(_MOST_BYTES))
    path = Path(place)
    try:
        with open(path) as file:
            _require_private(path, os.fstat(file.fileno()))
            return Secret.parse(file.read(_MOST_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--token {place} can't be read: {getattr(error, 'strerror', None) or 'it is no text'}."
        ) from None


def _require_private(path: Path, state: os.stat_result) -> None:
    if stat.S_ISREG(state.st_mode) and state.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        raise InputError(
            f"--token {path} can be read by other users (mode {stat.S_IMODE(state.st_mode):o}): `chmod 600 {path}`. "
            "Revoke the token if there are users who may have read it."
        )
