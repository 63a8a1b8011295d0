"""What workers tell of their host with their devices, for jobs that ask it to be as another is (``Device.lacks``)."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

log = logging.getLogger(__name__)

#: Importing the runtimes takes seconds.
TIMEOUT_S = 120.0
_COMMAND = (sys.executable, "-m", "inferbench_tasks.bricks.runtimes.told")


def host_tells(command: tuple[str, ...] = _COMMAND) -> dict[str, str]:
    """Name -> how it is here; {}, and why in the log, where that can't be found out: nothing is refused then.

    It is a process of its own that looks: the runtimes are imported for it, and one that takes its process with it does
    not take the worker.
    """
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        told: dict[str, str] = json.loads(ended.stdout.strip().rpartition("\n")[2])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.warning("the leader is not told by which runtimes bricks are timed here: %s", error)
        return {}
    if ended.stderr:
        log.warning("of the runtimes that time bricks: %s", ended.stderr.strip()[-500:])
    return told
