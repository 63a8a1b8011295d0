"""SIGTERM ends a stage in the middle, by an exception, so that its own clean-up runs."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from inferbench_tasks.errors import CancelledError

PR_SET_PDEATHSIG = 1


@contextmanager
def interruptible(allowed: bool) -> Iterator[None]:
    """Within it, SIGTERM and SIGINT raise CancelledError, once, if ``allowed``; else they only wait.

    A stage that cleans up must not be stopped in the middle of it. A handler that the process has hears of the signal
    first: a command that was stopped while it runs stages itself must know that it was.
    """
    raised = False

    def on_signal(signum: int, frame: FrameType | None) -> None:
        nonlocal raised
        handler = before[signal.Signals(signum)]
        if callable(handler) and handler is not signal.default_int_handler:
            handler(signum, frame)
        if allowed and not raised:
            raised = True
            error = CancelledError(f"Stopped by {signal.Signals(signum).name}.")
            if _deferral.depth == 0:
                raise error
            _deferral.error = error

    before = {s: signal.signal(s, on_signal) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Deferral:
    """Signals arrive in the main thread only: nothing else touches it."""

    depth: int = 0
    error: CancelledError | None = None


_deferral = _Deferral()


@contextmanager
def deferred() -> Iterator[None]:
    """Within it, a signal that ``interruptible`` would raise for waits for the end: for what is recorded as one.

    The signals are not blocked: a process that is started meanwhile would inherit that. Other threads than the main one
    get no signals, so there is nothing to wait for in them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _deferral.depth += 1
    try:
        yield
    finally:
        _deferral.depth -= 1
        error = _deferral.error
        if error is not None and _deferral.depth == 0:
            _deferral.error = None
            raise error


def die_with_parent() -> None:
    """Ask the kernel to send this process SIGTERM when its parent dies (Linux)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
