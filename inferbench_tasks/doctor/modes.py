"""Who may enter the data directory, and read the files with secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator

from inferbench_tasks import private
from inferbench_tasks.doctor.base import Advice, Installation

#: Files with secrets, below the data directory.
SECRETS = (
    "perfdb/key",
    "system/secrets.json",
    "system/passwords.json",
    "system/environment.json",
    "system/broker/redis.conf",
)


def modes(place: Installation) -> Iterator[Advice]:
    """Nobody else enters the data directory; files with secrets are mode 600 and ours."""
    good = True
    for path in private.open_to_others(place.data_dir):
        good = False
        yield Advice(
            check="modes", level="finding", what=f"other users may enter {path}", remedy=f"chmod go= {path}"
        )
    for name in SECRETS:
        path = place.data_dir / name
        if not path.exists():
            continue
        facts = path.stat()
        if facts.st_mode & 0o077:
            good = False
            yield Advice(
                check="modes", level="finding", what=f"{path} has mode {facts.st_mode & 0o777:o}",
                remedy=f"chmod 600 {path}; if others could enter its folder: inferbench down, remove it, inferbench up",
            )  # fmt: skip
        if facts.st_uid != os.geteuid():
            good = False
            yield Advice(
                check="modes", level="finding", what=f"{path} belongs to uid {facts.st_uid}, not to you",
                remedy="use a data directory of your own (--data-dir)",
            )  # fmt: skip
    if good:
        yield Advice(check="modes", level="ok", what=f"{place.data_dir} is closed to other users")
