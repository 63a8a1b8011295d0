"""The embedded server: one for all who ask, found again after every accident."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pymongo.errors import DuplicateKeyError

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InferBenchError, PerfDBError, StorageError
from inferbench_tasks.perfdb import credentials, embedded, launch, mongod, replicaset
from inferbench_tasks.perfdb import folder as folders
from inferbench_tasks.perfdb.server_state import FILE, ServerState
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")


@pytest.fixture
def home(data_dir: Path) -> Iterator[Path]:
    """A data directory whose embedded server is ended afterwards."""
    yield data_dir
    embedded.stop(data_dir)


def pid_of(home: Path) -> int:
    """The embedded server's process."""
    pid: int = embedded.status(home)["pid"]
    return pid


def kill(home: Path) -> int:
    """End the embedded server by kill -9, once it runs; its former pid."""
    while not embedded.status(home)["running"]:
        time.sleep(0.02)
    process = psutil.Process(pid_of(home))
    process.kill()
    assert launch._gone(process, 30)
    return process.pid


def ensure_in_child(home: Path) -> str:
    """For a pool of processes."""
    return embedded.ensure(home)


def test_it_may_open_more_files_than_a_login(home: Path) -> None:
    """A login's 1,024 open files do not bind the server, which ends when it can open no more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        embedded.ensure(home)
        assert psutil.Process(pid_of(home)).rlimit(psutil.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_six_processes_get_one_server(home: Path) -> None:
    """Whoever asks at the same time gets the same server, and there is only one."""
    with multiprocessing.get_context("spawn").Pool(6) as pool:
        uris = pool.map(ensure_in_child, [home] * 6, chunksize=1)
    assert len(set(uris)) == 1
    servers = [
        p
        for p in psutil.process_iter(["cmdline"])
        if str(home / "perfdb" / "db") in (p.info["cmdline"] or [])
    ]
    assert [p.pid for p in servers] == [pid_of(home)]


def test_it_outlives_its_starter_and_stops_when_told(home: Path) -> None:
    """The server is nobody's child, listens on loopback only, and is gone after stop; its data stay."""
    with PerfDB.connect(None, home) as db:
        assert db.embedded
        db.save_result(result())
    process = psutil.Process(pid_of(home))
    assert process.ppid() != os.getpid()
    assert {c.laddr.ip for c in process.net_connections("inet") if c.status == "LISTEN"} == {"127.0.0.1"}
    assert embedded.stop(home)
    assert not embedded.status(home)["running"]
    assert launch._gone(process, 0.1)
    assert not embedded.stop(home)
    with PerfDB.connect(None, home) as db:
        assert db.get_result("run-1").valid


def test_a_new_database_is_small(home: Path) -> None:
    """No journal is preallocated: a fresh data folder takes a few tens of megabytes at most."""
    embedded.ensure(home)
    assert sum(p.stat().st_blocks * 512 for p in home.rglob("*") if p.is_file()) < 60e6


def write_until(home: Path, name: str, seconds: float, acknowledged: multiprocessing.Queue[object]) -> None:
    """Insert documents and report the number of those that were acknowledged."""
    db, count, end = PerfDB.connect(None, home), 0, time.monotonic() + seconds
    while time.monotonic() < end:

        def insert(number: int = count) -> None:
            try:
                db._session.database()["writes"].insert_one({"_id": f"{name}-{number}", "x": "x" * 500})
            except DuplicateKeyError:
                return

        db._session.retrying(insert, "writing")
        count += 1
    acknowledged.put((name, count))


def test_no_acknowledged_write_is_lost(home: Path) -> None:
    """Three times kill -9 under writers that go on by themselves: all they were told is stored is there."""
    embedded.ensure(home)
    context = multiprocessing.get_context("spawn")
    reports: multiprocessing.Queue[tuple[str, int]] = context.Queue()
    writers = [context.Process(target=write_until, args=(home, name, 7.0, reports)) for name in "ab"]
    for writer in writers:
        writer.start()
    for _ in range(3):
        time.sleep(1.5)
        kill(home)
    written = dict(reports.get(timeout=60) for _ in writers)
    for writer in writers:
        writer.join()
    with PerfDB.connect(None, home) as db:
        stored = {d["_id"] for d in db._session.database()["writes"].find({}, {"_id": 1})}
    assert min(written.values()) > 0
    assert {f"{n}-{i}" for n, count in written.items() for i in range(count)} <= stored


@pytest.mark.long  # writes of any kind: the one before it; of a run: tests/e2e/test_faults.py
def test_stages_are_recorded_though_the_server_dies_between_and_during_them(home: Path) -> None:
    """Killed again and again, between and while stages are recorded, it comes back with all that was told."""
    db = PerfDB.connect(None, home)
    db.start_run("run-1", "inv", "job", {"name": "s"})
    login = credentials.drawn(home / "perfdb")
    kill(home)

    def kill_twice() -> None:
        for _ in range(2):
            while not replicaset.takes_login(embedded.status(home).get("port", 1), 1.0, login):
                time.sleep(0.05)
            time.sleep(0.3)
            kill(home)

    killer = threading.Thread(target=kill_twice, daemon=True)
    killer.start()
    attempts = 0
    while killer.is_alive():
        attempts += 1
        db.stage_started("run-1", "load", attempts)
        db.stage_finished("run-1", "load", attempts, output={"attempt": attempts}, duration_s=0.1)
    assert attempts > 1
    db.save_result(result())
    run = db.get_run("run-1")
    assert [(s.attempt, s.state, s.output) for s in run.stages] == [
        (n, "done", {"attempt": n}) for n in range(1, attempts + 1)
    ]
    assert run.said == "valid"
    db.close()


def test_gangs_stay_whole_though_the_server_dies_while_they_are_leased(home: Path) -> None:
    """Killed twice under a scheduler that leases two devices and gives them back: both or none have the lease
    afterwards, no token is used twice, and it goes on."""
    db = PerfDB.connect(None, home)
    cluster = Cluster(db)
    for name in "ab":
        cluster.register(Device(device_id=name, device_type="cpu", name="c", host="h"))
    login = credentials.drawn(home / "perfdb")

    def kill_often() -> None:
        for _ in range(2):
            while not replicaset.takes_login(embedded.status(home).get("port", 1), 1.0, login):
                time.sleep(0.05)
            time.sleep(0.4)
            kill(home)

    killer = threading.Thread(target=kill_often, daemon=True)
    killer.start()
    tokens: list[int] = []
    while killer.is_alive():
        lease = cluster.grant("a", "job", spec={}, run_id="", now_s=0.0, est_end_s=1.0, others=["b"])
        held = {d.lease.token if d.lease else None for d in cluster.devices()}
        assert lease is not None and held == {lease.token}
        tokens.append(lease.token)
        cluster.release("a", lease.token, "ended", ["b"])
        assert {d.lease for d in cluster.devices()} == {None}
    assert tokens and tokens == sorted(set(tokens))
    db.close()


def test_a_given_uri_of_the_embedded_server_revives_it(home: Path) -> None:
    """A stage that was handed the embedded server's URI brings it back after its death."""
    uri = embedded.ensure(home)
    kill(home)
    with PerfDB.connect(uri, home) as db:
        assert db.embedded
        assert db.count_results() == 0


@pytest.mark.parametrize("written", ["stale", "foreign", "torn", "missing"])
def test_whatever_is_written_down_the_truth_is_found(home: Path, written: str) -> None:
    """A live server is found, and a dead one replaced, whatever the state file says."""
    uri = embedded.ensure(home)
    pid, file = pid_of(home), home / "perfdb" / FILE
    if written == "stale":
        os.kill(pid, signal.SIGKILL)
        assert embedded.ensure(home) == uri
        assert pid_of(home) != pid
        return
    if written == "foreign":
        me = psutil.Process()
        ServerState(me.pid, me.create_time(), 1, "x").write(home / "perfdb")
    elif written == "torn":
        file.write_text('{"pid": 12')
    else:
        file.unlink()
    assert embedded.ensure(home) == uri
    assert pid_of(home) == pid


def bind_when_free(other: socket.socket, port: int) -> None:
    """The kernel may take a moment to give the port of a killed process back."""
    deadline = time.monotonic() + 20
    while True:
        try:
            other.bind(("127.0.0.1", port))
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def test_its_port_taken_meanwhile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another program has taken its port, the server comes back on another one with all its data."""
    with PerfDB.connect(None, home) as db:
        db.save_result(result())
    port = embedded.status(home)["port"]
    kill(home)
    monkeypatch.setattr(launch, "DYING_S", 0.1)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bind_when_free(other, port)
        other.listen()
        assert db.get_result("run-1").valid
        assert embedded.status(home)["port"] != port
        db.save_result(result("run-2"))
    db.close()


def test_a_port_taken_at_the_last_moment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the port chosen is taken before mongod binds it, another one is tried."""
    free_port = launch._free_port
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = [other.getsockname()[1]]
        monkeypatch.setattr(launch, "_free_port", lambda: ports.pop() if ports else free_port())
        uri = embedded.ensure(home)
        assert str(other.getsockname()[1]) not in uri


def test_a_server_that_hangs_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process is an error in bounded time that says how to end it; stop does end it."""
    monkeypatch.setattr(embedded, "PING_TIMEOUT_S", 0.5)
    monkeypatch.setattr(launch, "STOP_TIMEOUT_S", 1.0)
    embedded.ensure(home)
    pid = pid_of(home)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(PerfDBError, match=rf"pid {pid}.*`inferbench perfdb stop` ends it"):
            embedded.ensure(home)
        assert embedded.stop(home)
    finally:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGCONT)


def test_a_long_path_and_a_linked_one(tmp_path: Path) -> None:
    """A path far beyond a Unix socket's 107 characters works, and a link to it means the same server."""
    home = tmp_path / ("d" * 120) / ("e e" * 40)
    home.mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    try:
        assert embedded.ensure(home) == embedded.ensure(tmp_path / "link")
    finally:
        embedded.stop(home)


def test_data_in_use_by_a_server_that_is_not_ours(home: Path) -> None:
    """A mongod on the same data that was started by other means is never taken for ours."""
    embedded.ensure(home)
    embedded.stop(home)
    db, config = home / "perfdb" / "db", home / "mongod.conf"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config.write_text(
        f"storage: {{dbPath: '{db}'}}\nnet: {{port: {port}, unixDomainSocket: {{enabled: false}}}}\n"
    )
    other = subprocess.Popen([mongod.find(), "--config", config], stdout=subprocess.DEVNULL)
    try:
        while replicaset.db_path(port, 1.0) is None:
            assert other.poll() is None
        with pytest.raises(PerfDBError, match="in use by a mongod that this process can't see"):
            embedded.ensure(home)
    finally:
        other.terminate()
        other.wait()


def test_a_processor_without_avx(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where MongoDB can't run, the message says AVX, and what to do instead."""
    cpu_info = tmp_path / "cpuinfo"
    cpu_info.write_text("processor : 0\nflags\t\t: fpu sse sse2\n")
    monkeypatch.setattr(mongod, "CPU_INFO", cpu_info)
    with pytest.raises(PerfDBError, match=r"no AVX.*INFERBENCH_PERFDB_URI"):
        embedded.ensure(home)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -ILL $$", "no AVX"),
        ("echo its own words; exit 7", r"(?s)did not start \(exit code 7\).*its own words"),
        (None, "is no program that can be run; unset it"),
    ],
)
def test_a_program_that_does_not_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str | None, message: str
) -> None:
    """PERFDB_MONGOD replaces the packaged program; if it fails, its words are in the error."""
    program = tmp_path / "mongod"
    if script:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv(mongod.SETTING, str(program))
    with pytest.raises(PerfDBError, match=message):
        embedded.ensure(home)


def test_no_space_to_start(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little space is an error before anything is started."""
    monkeypatch.setattr(folders, "MIN_FREE_BYTES", 2**62)
    with pytest.raises(StorageError, match=r"No space.*MB are free at.*INFERBENCH_DATA_DIR"):
        embedded.ensure(home)
    assert not embedded.status(home)["running"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 MB; skips where none may be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip("may not mount a small file system")
    try:
        yield folder
    finally:
        embedded.stop(folder / "data")
        # Lazily: what the kernel still holds of the server that has just ended makes it busy for a moment.
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """A file that does not fit is refused, and the server lives on to record that."""
    with PerfDB.connect(None, small_disk / "data") as db:
        db.start_run("run-1", "inv", "job", {"name": "s"})
        db.stage_started("run-1", "load")
        filler = small_disk / "filler"
        with open(filler, "wb") as file:
            file.truncate(0)
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(small_disk).free - 80_000_000)
        with pytest.raises(StorageError, match=r"No space in PerfDB for 20 MB: \d+ MB are needed") as caught:
            db.files.put(b"x" * 20_000_000, "samples")
        db.stage_failed("run-1", "load", error=str(caught.value))
        assert db.get_run("run-1").said.startswith("failed: load, No space in PerfDB")
        assert db.sizes()["files"] == 0


def as_nobody(work: Callable[[], object]) -> str:
    """The message of the error that ``work`` raises in a process of the user nobody."""
    reader, writer = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            writer.send(f"no error: {work()}")
        except InferBenchError as error:
            writer.send(f"{type(error).__name__}: {error}")

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    message: str = reader.recv() if reader.poll() else f"exit code {process.exitcode}"
    return message


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)
        embedded.stop(Path(name))


@as_root
def test_a_data_directory_of_another_user(shared_folder: Path) -> None:
    """A second user is told whose PerfDB it is, and the server stays as it was."""
    uri = embedded.ensure(shared_folder)
    me, nobody = pwd.getpwuid(os.geteuid()).pw_name, pwd.getpwuid(NOBODY).pw_name
    for work in (embedded.ensure, embedded.stop):
        message = as_nobody(lambda work=work: work(shared_folder))  # type: ignore[misc]
        assert f"StorageError: The PerfDB in {shared_folder / 'perfdb'} belongs to {me}" in message
        assert f"you are {nobody}" in message
        assert "INFERBENCH_DATA_DIR" in message
    assert embedded.ensure(shared_folder) == uri


@as_root
def test_a_folder_that_cannot_be_written(shared_folder: Path) -> None:
    """An unwritable data directory is a clear error with the remedy."""
    message = as_nobody(lambda: embedded.ensure(shared_folder / "data"))
    assert f"StorageError: The PerfDB's folder {shared_folder / 'data' / 'perfdb'} can't be used" in message
    assert "Permission denied" in message
    assert "--data-dir" in message
