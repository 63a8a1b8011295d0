"""Processes: started with what they need, watched, and ended with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.errors import CancelledError, ServerError
from inferbench_tasks.interrupt import interruptible
from inferbench_tasks.launchers import processes, records
from inferbench_tasks.launchers.base import Launch, log_end
from inferbench_tasks.launchers.process import ProcessLauncher

Start = Callable[[str], ServerHandle]
LAUNCHER = ProcessLauncher()


@pytest.fixture
def servers_dir(tmp_path: Path) -> Iterator[Path]:
    """Where the records go; whatever a test leaves running is ended."""
    folder = tmp_path / "servers"
    yield folder
    records.sweep(folder, lambda run_id: True)


@pytest.fixture
def start(tmp_path: Path, servers_dir: Path) -> Start:
    """Start a shell script as the server of run "r"."""

    def run(script: str) -> ServerHandle:
        launch = Launch("r", tmp_path, tmp_path / "config.json", ("/bin/sh", "-c", script), {"EXTRA": "1"})
        return LAUNCHER.start(launch, servers_dir)

    return run


def test_a_server_is_kept_to_its_cores_from_its_first_instruction(tmp_path: Path, servers_dir: Path) -> None:
    """And what it starts; who starts it keeps its own."""
    before = os.sched_getaffinity(0)
    core = max(before)
    script = f"taskset -p $$ > {tmp_path}/own; sh -c 'taskset -p $$' > {tmp_path}/child; sleep 60"
    launch = Launch("r", tmp_path, tmp_path / "c.json", ("/bin/sh", "-c", script), cores=(core,))
    LAUNCHER.start(launch, servers_dir)
    wait_for(lambda: len(written(tmp_path / "child")) > 0)
    for name in ("own", "child"):
        assert int(written(tmp_path / name)[-1], 16) == 1 << core
    assert os.sched_getaffinity(0) == before


def test_one_server_of_a_run_is_ended_alone(start: Start, servers_dir: Path) -> None:
    """The others of its run live on, and are ended with it later."""
    first, second = start("sleep 60"), start("sleep 60")
    assert records.end_server(servers_dir, first) and not records.end_server(servers_dir, first)
    assert (LAUNCHER.alive(first), LAUNCHER.alive(second)) == (False, True)
    assert records.end_run(servers_dir, "r") and not LAUNCHER.alive(second)


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds; fails after ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def written(path: Path) -> list[str]:
    """The lines of a file, none before it exists."""
    return path.read_text().split() if path.exists() else []


def test_a_signal_amid_the_start_waits_until_the_server_is_known(
    start: Start, servers_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes just before the process is there: whoever was started is in the record, and is ended by it."""
    popen = subprocess.Popen

    def late(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        return popen(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", late)
    with pytest.raises(CancelledError), interruptible(True):
        start("exec sleep 60")
    monkeypatch.undo()
    (record,) = records.read_all(servers_dir).values()
    assert record.server is not None and LAUNCHER.alive(record.server)
    assert records.end_run(servers_dir, "r")
    assert not LAUNCHER.alive(record.server)


def test_stopping_ends_children_too_even_in_sessions_of_their_own(
    start: Start, servers_dir: Path, tmp_path: Path
) -> None:
    """A child, a grandchild that left its session, and an orphan: all gone, and the record with them."""
    start(
        "sleep 300 & echo $! >> pids; setsid sh -c 'sleep 300 & echo $! >> pids; wait' & "
        "(setsid sleep 300 & echo $! >> pids); wait"
    )
    wait_for(lambda: len(written(tmp_path / "pids")) == 3)
    pids = [int(line) for line in written(tmp_path / "pids")]
    assert all(processes.is_taken(pid) for pid in pids)
    assert records.end_run(servers_dir, "r")
    assert not any(processes.is_taken(pid) for pid in pids)
    assert list(servers_dir.iterdir()) == []


def test_what_a_dead_server_left_behind_is_ended(start: Start, servers_dir: Path, tmp_path: Path) -> None:
    """The leader was killed by force; its child still counts as the server's."""
    server = start("sleep 300 & echo $! > pids; wait")
    wait_for(lambda: len(written(tmp_path / "pids")) == 1)
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not LAUNCHER.alive(server))
    child = int(written(tmp_path / "pids")[0])
    assert processes.is_taken(child)
    records.end_run(servers_dir, "r")
    assert not processes.is_taken(child)


def test_a_server_that_ignores_sigterm_is_killed(start: Start, servers_dir: Path, tmp_path: Path) -> None:
    """After the grace, by force."""
    server = start("trap '' TERM; echo ready > pids; while :; do sleep 1; done")
    wait_for(lambda: bool(written(tmp_path / "pids")))
    (record,) = records.read_all(servers_dir).values()
    assert LAUNCHER.stop(record, grace_s=0.1)
    assert not processes.is_taken(server.pid)


def test_a_recycled_pid_is_left_alone(servers_dir: Path) -> None:
    """A process that has the pid but not the creation time is someone else's."""
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        server = ServerHandle(
            launcher="process",
            pid=other.pid,
            started_ns=processes.created_ns(other.pid) - 60_000_000_000,
            log_path="log",
            config_path="config",
        )
        assert not LAUNCHER.alive(server)
        records.write(servers_dir, ServerRecord(run_id="r", token="t", launcher="process", server=server))
        assert not records.end_run(servers_dir, "r")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_killed_server_is_noticed_within_a_second(start: Start) -> None:
    """``alive`` sees it at once, and says how it ended."""
    server = start("exec sleep 300")
    assert LAUNCHER.alive(server)
    os.kill(server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 1
    while LAUNCHER.alive(server):
        assert time.monotonic() < deadline
    assert LAUNCHER.exit_text(server) == "was killed by SIGKILL"


def test_the_log_has_what_the_server_said(start: Start) -> None:
    """Both streams, and the exit code is known."""
    server = start("echo out; echo err >&2; exit 7")
    wait_for(lambda: not LAUNCHER.alive(server))
    assert LAUNCHER.exit_text(server) == "ended with exit code 7"
    assert log_end(server.log_path) == "  out\n  err"


def test_a_server_sees_no_credentials(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of our environment only known names are passed on, with what the launch adds."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", "mongodb://user:secret@host")
    server = start("env")
    wait_for(lambda: not LAUNCHER.alive(server))
    seen = dict(line.split("=", 1) for line in Path(server.log_path).read_text().splitlines())
    assert seen["EXTRA"] == "1"
    assert "INFERBENCH_PERFDB_URI" not in seen
    assert "secret" not in Path(server.log_path).read_text()


def test_a_missing_program_is_named(tmp_path: Path, servers_dir: Path) -> None:
    """And no record of a server stays."""
    launch = Launch("r", tmp_path, tmp_path / "config.json", ("/nonexistent/server",))
    with pytest.raises(ServerError, match="/nonexistent/server can't be run: No such file or directory"):
        LAUNCHER.start(launch, servers_dir)
    assert list(servers_dir.iterdir()) == []


def test_a_sweep_ends_only_what_is_over(tmp_path: Path, servers_dir: Path) -> None:
    """Two runs' servers; the one that goes on is left alone, a dead one's record is removed."""
    made = {}
    for run_id, script in (("over", "exec sleep 300"), ("on", "exec sleep 300"), ("dead", "exit 0")):
        launch = Launch(run_id, tmp_path, tmp_path / "config.json", ("/bin/sh", "-c", script))
        made[run_id] = LAUNCHER.start(launch, servers_dir)
    wait_for(lambda: not LAUNCHER.alive(made["dead"]))
    assert records.sweep(servers_dir, lambda run_id: run_id == "over") == ["over"]
    assert not LAUNCHER.alive(made["over"])
    assert LAUNCHER.alive(made["on"])
    assert [r.run_id for r in records.read_all(servers_dir).values()] == ["on"]


def test_a_server_outlives_its_starter_and_is_found_by_its_record(tmp_path: Path, servers_dir: Path) -> None:
    """The starter is killed by force; another process ends the server, as after a crash of a stage."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from inferbench_tasks.launchers.base import Launch\n"
        "from inferbench_tasks.launchers.process import ProcessLauncher\n"
        "f = Path(sys.argv[1])\n"
        "ProcessLauncher().start(Launch('r', f, f / 'c', ('sleep', '300')), Path(sys.argv[2]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(servers_dir)], timeout=60)
    (record,) = records.read_all(servers_dir).values()
    assert record.server is not None
    assert LAUNCHER.alive(record.server)
    assert records.end_run(servers_dir, "r")
    assert not LAUNCHER.alive(record.server)


def test_a_start_that_was_cut_off_is_found_by_its_token(tmp_path: Path, servers_dir: Path) -> None:
    """A record without a pid: whatever carries its token is ended once the run is over."""
    record = ServerRecord(run_id="r", token="r-cut", launcher="process")
    records.write(servers_dir, record)
    lost = subprocess.Popen(
        ["sleep", "300"], env={**os.environ, processes.MARK: "r-cut"}, start_new_session=True
    )
    assert records.sweep(servers_dir, lambda run_id: False) == []
    assert records.end_run(servers_dir, "r")
    assert lost.wait(5) != 0


def test_a_server_counts_gpus_as_the_monitor_does(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """By PCI bus unless the user chose otherwise, and it sees the device that was given."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbb")
    for given, order in ((None, "PCI_BUS_ID"), ("FASTEST_FIRST", "FASTEST_FIRST")):
        if given:
            monkeypatch.setenv("CUDA_DEVICE_ORDER", given)
        else:
            monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
        path = Path(f"/proc/{start('sleep 60').pid}/environ")
        while not (environment := path.read_text().split("\0")) or not environment[0]:
            time.sleep(0.01)  # the kernel has not filled it in yet
        assert f"CUDA_DEVICE_ORDER={order}" in environment and "CUDA_VISIBLE_DEVICES=GPU-bbb" in environment


def test_a_server_on_several_devices_is_ended_by_each_of_them(
    start: Start, servers_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record names them all; a device that it does not run on leaves it alone."""
    monkeypatch.setenv(settings.WORKER, "a")
    monkeypatch.setenv(settings.DEVICES, "a,b")
    server = start("exec sleep 300")
    assert records.end_worker(servers_dir, "c") == [] and LAUNCHER.alive(server)
    assert records.end_worker(servers_dir, "b") == ["r"] and not LAUNCHER.alive(server)


def test_a_server_s_log_that_is_a_link_is_neither_written_nor_shown(
    start: Start, tmp_path: Path, servers_dir: Path
) -> None:
    """What read the model may have put it into the server's folder; nothing is started, and no record is left."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text("not yours")
    (tmp_path / "server.log").symlink_to(secret)
    with pytest.raises(ServerError, match="server.log can't be written: a link stands there"):
        start("echo out")
    assert secret.read_text() == "not yours" and not list(servers_dir.glob("*.json"))
    assert log_end(tmp_path / "server.log") == (
        "  (the log can't be read: a link stands there, which is not followed)"
    )
