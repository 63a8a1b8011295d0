"""When old files are removed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from inferbench_tasks.provider.executors import cleaning
from inferbench_tasks.upkeep.clean import STAMP

pytestmark = pytest.mark.airflow


def test_once_a_day_and_not_while_something_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless that has gone on for two days; never two at once."""
    monkeypatch.setattr(cleaning, "COMMAND", ["sleep", "60"])
    stamp = tmp_path / STAMP
    stamp.touch()
    work = cleaning.Cleaning(tmp_path)
    assert not work.start_if_due(measuring=False)
    day_and_a_bit = time.time() - 90_000
    os.utime(stamp, (day_and_a_bit, day_and_a_bit))
    assert not work.start_if_due(measuring=True)
    assert work.start_if_due(measuring=False)
    assert not work.start_if_due(measuring=False), "one is under way"
    assert work._process is not None
    work._process.kill()
    work._process.wait()
    os.utime(stamp, (1, 1))
    assert work.start_if_due(measuring=True)
    work._process.kill()
    work._process.wait()


def test_the_command_is_there() -> None:
    """What is started is ``inferbench clean``, behind everything else."""
    assert (
        cleaning.COMMAND[-2:] == ["clean", "--if-due"] and "inferbench_tasks.background" in cleaning.COMMAND
    )
