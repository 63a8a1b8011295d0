"""What a fault is: a context that ends with the fault's end, what it is done amid, and what it may break."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from tests.joined_hosts import Joined, JoinedHost


@dataclass(frozen=True)
class Amid:
    """What a fault is done amid. ``digests``: the artifacts that the jobs of this work use; ``since``: PerfDB's time as
    the round began.
    """

    joined: Joined
    host: JoinedHost
    rng: random.Random
    digests: frozenset[str]
    since: datetime


@dataclass(frozen=True)
class Done:
    """What was done, in words. ``met``: whether a job met it; asked once it has ended."""

    words: str
    met: Callable[[], bool]


Fault = Callable[[Amid], AbstractContextManager[Done]]


@dataclass(frozen=True)
class Kind:
    """``explains``: a pattern of causes by which a job may fail; "" where none may. ``first``: it is done before the
    job begins, for it to be met. ``ready``: what the host needs for it, before the job.
    """

    does: Fault
    explains: str = ""
    first: bool = False
    ready: Callable[[Joined, JoinedHost], AbstractContextManager[None]] | None = None
