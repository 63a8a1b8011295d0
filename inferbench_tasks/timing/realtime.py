"""The sender as a real-time process: it runs when it is due, before everything else on its core."""

from __future__ import annotations

import os

from inferbench_tasks.errors import InputError

_PRIORITY = 10


def realtime_problem() -> str | None:
    """Why this process can't become a real-time one; None if it can. It is one for a moment."""
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        os.sched_setscheduler(0, *before)
    except (OSError, AttributeError) as error:
        return (
            f"SCHED_FIFO is not permitted here ({error}); leave load.realtime out, or give the process "
            "CAP_SYS_NICE (or a limit: ulimit -r)"
        )
    return None


def become_realtime() -> None:
    """SCHED_FIFO from now on; InputError where that is not permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except (OSError, AttributeError) as error:
        raise InputError(f"{realtime_problem()}", field="load.realtime") from error
