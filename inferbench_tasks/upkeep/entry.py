"""One thing that may be removed: a folder or a file, when it was used last, and what keeps it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: What was used this recently stays, whatever the bounds say: somebody may be about to use it again.
YOUNG_S = 3600.0


@dataclass(frozen=True, slots=True)
class Entry:
    """``used_s``: Unix time. ``in_use``: by whom; such an entry stays whatever the bounds say.

    ``remove`` removes it, and says what keeps it after all: somebody may have come to use it meanwhile. ``unstored``
    says what is here and nowhere else; it may be costly, and is asked of what would go only. ``overdue``: why it goes
    although it is used.
    """

    path: Path
    total_bytes: int
    used_s: float
    remove: Callable[[], str]
    in_use: str = ""
    unstored: Callable[[], str] | None = None
    overdue: str = ""


def used_at(path: Path) -> float:
    """When a file, or anything directly in a folder, was changed last; Unix time, 0 for what is not there."""
    moments = [0.0]
    with suppress(OSError):
        moments.append(path.lstat().st_mtime)
    with suppress(OSError), os.scandir(path) as entries:
        moments += [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
    return max(moments)
