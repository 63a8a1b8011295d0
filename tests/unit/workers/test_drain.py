"""Which workers run in a data directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from inferbench_tasks.workers import drain

WORKER = """
import sys, time
from pathlib import Path
from inferbench_tasks.workers.drain import entered
with entered(Path(sys.argv[1])):
    print("in", flush=True)
    if len(sys.argv) > 2:
        import subprocess
        subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
    time.sleep(600)
"""


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", WORKER, str(folder), *more], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"in\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_workers_are_those_that_run(tmp_path: Path) -> None:
    """Not one that was killed, whose file goes; none of another data directory."""
    alive, dead, other = start(tmp_path / "a"), start(tmp_path / "a"), start(tmp_path / "b")
    try:
        assert {p.pid for p in drain.workers(tmp_path / "a")} == {alive.pid, dead.pid}
        dead.kill()
        dead.wait()
        assert [p.pid for p in drain.workers(tmp_path / "a")] == [alive.pid]
        assert len(list((tmp_path / "a" / drain.FOLDER).iterdir())) == 1
        drain.drain([psutil.Process(alive.pid)])
        alive.wait()
        assert drain.workers(tmp_path / "a") == [] and other.poll() is None
    finally:
        for process in (alive, dead, other):
            end(process)


def test_a_worker_that_another_started_is_told_by_that_one(tmp_path: Path) -> None:
    """Else the one that started it would start it again."""
    process = start(tmp_path, WORKER)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"in\n"
        assert len(list((tmp_path / drain.FOLDER).iterdir())) == 2
        assert [p.pid for p in drain.workers(tmp_path)] == [process.pid]
    finally:
        for child in psutil.Process(process.pid).children():
            child.kill()
        end(process)
