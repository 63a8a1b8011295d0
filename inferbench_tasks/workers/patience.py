"""A worker that is started while its leader or PerfDB is down waits for it: it serves until it is stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from inferbench_tasks.errors import LeaderAwayError, PerfDBAwayError

log = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
#: What it waits for is said at once, when it is another thing, and again after so long.
SAY_AGAIN_S = 300.0


def once_there(operation: Callable[[], T]) -> T:
    """What it returns, tried again however long nobody answers; whatever else it raises ends the wait at once."""
    pause_s, said, said_at = FIRST_PAUSE_S, "", 0.0
    while True:
        try:
            return operation()
        except (LeaderAwayError, PerfDBAwayError) as error:
            text, now = str(error), time.monotonic()
            if text != said or now - said_at > SAY_AGAIN_S:
                log.warning("waiting, and trying again until somebody answers: %s", text)
                said, said_at = text, now
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
