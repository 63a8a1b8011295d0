"""Work in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks.background import NICE, nice
from inferbench_tasks.errors import InputError

SHOW = "import os; print(os.getpriority(os.PRIO_PROCESS, 0)); print(open('/proc/self/autogroup').read())"


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="a kernel without autogroups")
def test_it_comes_last_in_its_session_and_among_sessions() -> None:
    """The command runs at nice 19, and its session's group as well."""
    command = [sys.executable, "-m", "inferbench_tasks.background", sys.executable, "-c", SHOW]
    done = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    nice, group = done.stdout.split(maxsplit=1)
    assert int(nice) == 19
    assert group.strip().endswith("nice 19")
    assert os.getpriority(os.PRIO_PROCESS, 0) < 19


def test_its_nice_value_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0, like everything else, to 19, behind everything else; anything else is refused by name."""
    for text, value in (("0", 0), ("19", 19), ("", 19)):
        monkeypatch.setenv(NICE, text)
        assert nice() == value
    for text in ("20", "-1", "low"):
        monkeypatch.setenv(NICE, text)
        with pytest.raises(InputError, match=NICE):
            nice()
