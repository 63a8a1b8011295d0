"""Memory and time of a process in the sandbox: what a limit of the kernel can't say without a cgroup of its own.

``RLIMIT_AS`` counts addresses, of which GPUs and compilers reserve far more than they use. So who waits for the process
looks at it (``watch``); and where memory runs out all the same, the kernel ends it before anything else.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from inferbench_tasks.errors import InputError
from inferbench_tasks.memory import limit_bytes

#: The share of the machine's memory (or the container's) that a process may have with all that it started, percent.
MEMORY = "INFERBENCH_SANDBOX_MEMORY_PERCENT"
MEMORY_PERCENT = 90.0
#: How long the child of a stage may take for an order, hours.
TIME = "INFERBENCH_SANDBOX_HOURS"
TIME_HOURS = 12.0
EVERY_S = 2.0
#: Of -1000 (never) to 1000 (first).
OOM_SCORE = 600


def first_to_go(pid: int) -> None:
    """Have the kernel end that process, and what it starts, before others when memory runs out."""
    with suppress(OSError):  # it has ended already
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE))


def most_bytes() -> int:
    """The memory that a process may have. InputError for a setting that is no share."""
    import psutil  # here and below: every plan reads this module

    total, limit = psutil.virtual_memory().total, limit_bytes()
    if limit is not None:
        total = min(total, limit)
    return int(total * number(MEMORY, MEMORY_PERCENT, 100.0) / 100)


def most_s() -> float:
    """How long an order may take, s. InputError for a setting that is no time."""
    return number(TIME, TIME_HOURS, 24 * 365.0) * 3600


def number(name: str, default: float, most: float) -> float:
    """A setting of the environment above 0; InputError for what is none, or above ``most``."""
    text = os.environ.get(name)
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise InputError(f"{name}={text!r}; allowed: a number above 0, at most {most:g}")
    return value
