"""A benchmark's submission that somebody ends."""

from __future__ import annotations

import signal
import subprocess
from unittest.mock import Mock, call

import pytest

from benchmarks.submitted import _ended


def child(*answers: object) -> Mock:
    """A command that answers so, one time after the other."""
    made = Mock(spec=subprocess.Popen)
    made.communicate.side_effect = answers
    return made


def test_ctrl_c_ends_the_benchmark_once_its_command_has_cleaned_up() -> None:
    """Not the one submission alone; a command that does not end is killed."""
    for answers in (
        (KeyboardInterrupt(), ("[]", None)),
        (KeyboardInterrupt(), subprocess.TimeoutExpired("run", 120), ("", None)),
    ):
        running = child(*answers)
        with pytest.raises(KeyboardInterrupt):
            _ended(running, None)
        assert running.communicate.call_count == len(answers) and not running.send_signal.called
        assert running.kill.called == (len(answers) == 3)


def test_one_that_takes_too_long_is_ended_and_says_what_it_has() -> None:
    """As by Ctrl-C."""
    running = child(subprocess.TimeoutExpired("run", 60), ("[1]", None))
    assert _ended(running, 60) == "[1]" and running.send_signal.mock_calls == [call(signal.SIGINT)]
