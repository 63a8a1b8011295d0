"""Signals that end a stage."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from inferbench_tasks.errors import CancelledError
from inferbench_tasks.interrupt import deferred, interruptible


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """What the process's own handler of SIGTERM heard."""
    signals: list[int] = []

    def handler(signum: int, frame: FrameType | None) -> None:
        signals.append(signum)

    before = signal.signal(signal.SIGTERM, handler)
    yield signals
    signal.signal(signal.SIGTERM, before)


def test_a_signal_raises_once_and_the_process_s_own_handler_hears_it(heard: list[int]) -> None:
    """So that a command that runs a stage itself knows that it was stopped; the second one only waits."""
    with pytest.raises(CancelledError, match="SIGTERM"), interruptible(True):
        os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM]
    with interruptible(False):
        os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM] * 2


def test_what_is_recorded_as_one_is_not_torn_apart(heard: list[int]) -> None:
    """Within ``deferred`` the signal waits for the end of the outermost block, and is raised there."""
    lines = []

    def record() -> None:
        with deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            lines.append("inner")

    def record_more() -> None:
        with deferred():
            record()
            lines.append("outer")

    with pytest.raises(CancelledError), interruptible(True):
        record_more()
    assert lines == ["inner", "outer"] and heard == [signal.SIGTERM]
