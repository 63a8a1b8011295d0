"""What a process that makes, converts or serves models may do to its machine.

``Reach`` says what it may read, write, bind and connect to; ``enter`` holds the calling thread, and all that it starts,
to it for good: files, ports, signals and abstract sockets by Landlock, kernel interfaces and other sockets by seccomp,
no privileges by programs, none of root's over the kernel, no core dumps. ``started`` starts a program so, where root
starts it as a user of its own (``draw``); ``bounded`` holds it to numbers; ``Watch`` looks at what no number bounds.

``INFERBENCH_SANDBOX``: ``require`` refuses to run where the kernel has no Landlock that keeps files, ports and signals,
or no seccomp; ``off`` leaves all of it out; what a run had is in its record.
"""

from __future__ import annotations

from inferbench_tasks.sandbox.account import draw, names
from inferbench_tasks.sandbox.confine import bounded, enter, started
from inferbench_tasks.sandbox.environment import environment
from inferbench_tasks.sandbox.landlock import landlock_abi
from inferbench_tasks.sandbox.reach import Reach
from inferbench_tasks.sandbox.rlimits import Bounds
from inferbench_tasks.sandbox.setting import SANDBOX, missing, require, setting, state
from inferbench_tasks.sandbox.watch import Watch, watched

__all__ = [
    "SANDBOX",
    "Bounds",
    "Reach",
    "Watch",
    "bounded",
    "draw",
    "enter",
    "environment",
    "landlock_abi",
    "missing",
    "names",
    "require",
    "setting",
    "started",
    "state",
    "watched",
]
