"""What a worker tells of its host."""

from __future__ import annotations

import logging
import sys

import pytest

from inferbench_tasks.bricks.runtimes.told import told_here
from inferbench_tasks.running.host_tells import host_tells


def test_a_worker_tells_what_its_runtimes_are() -> None:
    """As they are in a process of their own, which is what a stage sees."""
    assert host_tells() == told_here()


@pytest.mark.parametrize(
    "program",
    ["import os; os.abort()", "print('none of it')", "raise SystemExit(3)", ""],
)
def test_what_can_not_be_told_keeps_no_worker(program: str, caplog: pytest.LogCaptureFixture) -> None:
    """A runtime that takes its process with it, or writes what it likes: the log says so, and nothing is told."""
    with caplog.at_level(logging.WARNING):
        assert host_tells((sys.executable, "-c", program)) == {}
    assert "bricks are timed here" in caplog.text


def test_what_a_runtime_prints_is_not_taken_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """The last line counts, and what went wrong with one of them is in the log."""
    program = "import sys; print('hello'); sys.stderr.write('one: broken'); print('{\"runtime r\": \"r 1\"}')"
    with caplog.at_level(logging.WARNING):
        assert host_tells((sys.executable, "-c", program)) == {"runtime r": "r 1"}
    assert "one: broken" in caplog.text
