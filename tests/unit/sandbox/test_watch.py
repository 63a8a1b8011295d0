"""What a process in the sandbox takes with all that it started, and how that is ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.sandbox import group, limits, rlimits, watch

WAIT_S = 20
#: Detaches a process, which may write and hold memory, waits for a line, and ends.
DETACHED = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        import time
        time.sleep(600)
    os._exit(0)
sys.stdin.readline()
"""


@pytest.fixture
def leader() -> Iterator[tuple[subprocess.Popen[str], int, int | None]]:
    """A process of a user of its own, where that can be, the number of what it detached, and the user."""
    uid = sandbox.draw()

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", DETACHED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    process = sandbox.started(sandbox.Reach(), start, uid)
    assert process.stdout and process.stdin
    detached = int(process.stdout.readline())
    yield process, detached, uid
    group.end(process.pid, uid)
    subprocess.run(["kill", "-9", str(detached)], capture_output=True, check=False)
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_what_detached_itself_is_counted_and_ended(
    leader: tuple[subprocess.Popen[str], int, int | None],
) -> None:
    """By its user it is found in a session of its own and without its parent; nothing of it is left."""
    process, detached, uid = leader
    if uid is None:
        pytest.skip("only root gives processes a user of their own")
    assert {member.pid for member in group.members(process.pid, uid)} >= {process.pid, detached}
    group.end(process.pid, uid)
    process.wait()
    assert group.members(process.pid, uid) == [] and not Path(f"/proc/{detached}/exe").exists()


def test_a_server_that_eats_memory_under_load_is_ended(
    leader: tuple[subprocess.Popen[str], int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict says how much it had, what is allowed, the setting, and that it was ended."""
    process, _, uid = leader
    monkeypatch.setattr(limits, "most_bytes", lambda: 1 << 20)
    monkeypatch.setattr(watch, "LOADED_EVERY_S", 0.01)
    with sandbox.watched([("The server", sandbox.Watch(process.pid, uid))]) as verdict:
        assert process.wait(WAIT_S) < 0
        deadline_s = time.monotonic() + WAIT_S
        while verdict.reason is None and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert verdict.reason is not None and verdict.reason.startswith("The server had ")
    assert "MiB of memory; allowed are 1" in verdict.reason and limits.MEMORY in verdict.reason
    assert group.members(process.pid, uid) == []


def test_a_server_within_its_limits_is_let_alone(
    leader: tuple[subprocess.Popen[str], int, int | None],
) -> None:
    """There is no verdict, and it runs."""
    process, _, uid = leader
    with sandbox.watched([("The server", sandbox.Watch(process.pid, uid))]) as verdict:
        assert process.poll() is None
    assert verdict.reason is None and process.poll() is None


def test_little_memory_for_everything_else_ends_who_has_most_of_it(
    leader: tuple[subprocess.Popen[str], int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also within its own share; who has little of it stays."""
    process, _, uid = leader
    monkeypatch.setattr(watch, "LEFT_PERCENT", 100.0)
    assert sandbox.Watch(process.pid, uid).memory_or_tasks() is None
    monkeypatch.setattr(watch, "MOST_SHARE", 1e-6)
    reason = sandbox.Watch(process.pid, uid).memory_or_tasks()
    assert reason is not None and "were left to everything else" in reason


def test_processes_and_threads_are_counted(
    leader: tuple[subprocess.Popen[str], int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel doesn't bound them, who waits does; the setting is named."""
    process, _, uid = leader
    monkeypatch.setenv(rlimits.TASKS, "1")
    monkeypatch.setattr(rlimits, "most_tasks", lambda: 0)
    reason = sandbox.Watch(process.pid, uid).excess()
    assert reason is not None and "processes and threads; allowed are 0" in reason and rlimits.TASKS in reason


def test_room_is_counted_from_the_beginning(
    leader: tuple[subprocess.Popen[str], int, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there before is nobody's fault; many small files are too much as well as large ones."""
    process, _, uid = leader
    (tmp_path / "before").write_bytes(b"x" * 5_000_000)
    monkeypatch.setattr(rlimits, "most_room", lambda folder: 1_000_000)
    one = sandbox.Watch(process.pid, uid, (tmp_path, tmp_path / "not there"))
    (tmp_path / "folder").mkdir()
    assert one.excess() is None
    (tmp_path / "folder" / "after").write_bytes(b"x" * 2_000_000)
    reason = one.excess()
    assert reason is not None and f"MiB of {tmp_path}; allowed are" in reason and rlimits.ROOM in reason
    (tmp_path / "folder" / "after").unlink()
    assert one.excess() is None
    monkeypatch.setattr(watch, "ENTRIES_MOST", 1)
    assert one.excess() == f"made more than 1 files in {tmp_path}"
