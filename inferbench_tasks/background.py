"""Work that must not take the CPU from a measurement: ``python -m inferbench_tasks.background COMMAND…``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from inferbench_tasks.errors import InputError

LAST = 19
#: Another nice value for it, where nothing is measured that it could disturb, or others would never let it run.
NICE = "INFERBENCH_BACKGROUND_NICE"


def step_back(leader: int) -> None:
    """Let a session's nice value count against other sessions too; ``leader`` is the session's first process.

    Where Linux groups processes by session (autogroups), nice only counts within one: a converter at nice 19 would
    get as much of a core as the server that is measured on it.
    """
    try:
        Path(f"/proc/{leader}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, leader)))
    except OSError:
        return  # no autogroups, or not permitted: nice alone has to do


def nice() -> int:
    """The nice value of work in the background. InputError where the setting is none."""
    text = os.environ.get(NICE) or str(LAST)
    if not text.isdecimal() or int(text) > LAST:
        raise InputError(f"{NICE} is {text!r}; a whole number from 0 to {LAST} is needed.")
    return int(text)


def main(command: list[str]) -> None:
    """Become the command, behind everything else."""
    os.setpriority(os.PRIO_PROCESS, 0, nice())
    step_back(os.getpid())
    os.execvp(command[0], command)  # noqa: S606 - what we were asked to become


if __name__ == "__main__":
    main(sys.argv[1:])
