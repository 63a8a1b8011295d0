"""Memory and time of processes in the sandbox."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.errors import InputError
from inferbench_tasks.sandbox import limits

BIG = "import sys; x = bytearray(200 << 20); print(1, flush=True); sys.stdin.read()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BIG!r}])"


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose child has 200 MiB."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        yield process
        process.stdin.close()


def test_what_a_process_started_counts_as_its_memory(
    parent: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the setting nothing is said; beyond, how much it had, how much is allowed, and the setting."""
    watch = sandbox.Watch(parent.pid)
    assert watch.excess() is None
    monkeypatch.setattr(limits, "most_bytes", lambda: 150 << 20)
    reason = watch.excess()
    assert reason is not None and "allowed are 150" in reason and limits.MEMORY in reason


def test_the_kernel_ends_it_before_others(parent: subprocess.Popen[bytes]) -> None:
    """Its score is above that of this process; a process that has ended is no error."""
    limits.first_to_go(parent.pid)
    assert Path(f"/proc/{parent.pid}/oom_score_adj").read_text().strip() == str(limits.OOM_SCORE)
    limits.first_to_go(2**22 + 1)
    assert sandbox.Watch(2**22 + 1).excess() is None


@pytest.mark.parametrize("value", ["0", "-1", "101", "x", "nan"])
def test_a_setting_that_is_no_share_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The message says what is allowed."""
    monkeypatch.setenv(limits.MEMORY, value)
    with pytest.raises(InputError, match="a number above 0, at most 100"):
        limits.most_bytes()


def test_half_the_memory_is_half_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings are shares of what the machine or the container has, and hours."""
    monkeypatch.setenv(limits.MEMORY, "100")
    whole = limits.most_bytes()
    monkeypatch.setenv(limits.MEMORY, "50")
    assert limits.most_bytes() == whole // 2
    monkeypatch.setenv(limits.TIME, "0.5")
    assert limits.most_s() == 1800
