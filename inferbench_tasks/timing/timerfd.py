"""A timer of the kernel's that an event loop can wait for: exact where loops tick at 1 ms.

Python 3.11 has no ``os.timerfd_create``; the three calls come from the C library.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_ABSTIME = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _Spec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


_libc = ctypes.CDLL(None, use_errno=True)


class Timer:
    """Calls back at an absolute time of CLOCK_MONOTONIC; one time is armed at once, the last one given."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._loop = loop
        self._wake = wake
        self._spec = _Spec(0, 0, 0, 0)
        self._reference = ctypes.byref(self._spec)
        self._settime = _libc.timerfd_settime
        loop.add_reader(self._fd, self._fired)

    def at(self, time_ns: int) -> None:
        """Wake at that time; at once if it has passed."""
        self._spec.value_s, self._spec.value_ns = divmod(max(1, time_ns), 1_000_000_000)
        if self._settime(self._fd, _ABSTIME, self._reference, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def close(self) -> None:
        """Never wake again."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # set anew between the wake-up and here
        self._wake()
