"""SIGTERM ends a stage in the middle, by an exception, so that its own clean-up runs."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from inferbench_tasks.errors import CancelledError

PR_SET_PDEATHSIG = 1


@contextmanager
def interruptible(allowed: bool) -> Iterator[None]:
    """Within it, SIGTERM and SIGINT raise CancelledError, once, if ``allowed``; else they only wait.

    A stage that cleans up must not be stopped in the middle of it.
    """
    raised = False

    def on_signal(signum: int, frame: FrameType | None) -> None:
        nonlocal raised
        if allowed and not raised:
            raised = True
            raise CancelledError(f"Stopped by {signal.Signals(signum).name}.")

    before = {s: signal.signal(s, on_signal) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def die_with_parent() -> None:
    """Ask the kernel to send this process SIGTERM when its parent dies (Linux)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
