"""Code in the sandbox against the other processes of InferBench: its worker, PerfDB, and the senders of a load."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.sandbox import account, group
from inferbench_tasks.sandbox.setting import missing
from tests.security.bounds import Limits

pytestmark = pytest.mark.skipif(bool(missing()), reason="this kernel lacks a part of the sandbox")


@pytest.fixture
def limits() -> Limits:
    """It starts two interpreters."""
    return Limits(cpu_s=15)


ATTEMPTS = """
import ctypes, json, os, resource, signal, socket, sys
from pathlib import Path
pid, abstract, canary = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
def outcome(act):
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
def dial():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(chr(0) + abstract)
def read_memory():
    class Piece(ctypes.Structure):
        _fields_ = [("address", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    own = ctypes.create_string_buffer(8)
    here = Piece(ctypes.addressof(own), 8)
    call(vm_read, pid, ctypes.byref(here), 1, ctypes.byref(here), 1, 0)
x86 = os.uname().machine == "x86_64"
ptrace, vm_read, ioprio, pidfd, send = (101, 310, 251, 434, 424) if x86 else (117, 270, 30, 434, 424)
print(json.dumps({
    "end": outcome(lambda: os.kill(pid, signal.SIGKILL)),
    "end by descriptor": outcome(lambda: call(send, os.pidfd_open(pid), signal.SIGKILL, None, 0)),
    "stop": outcome(lambda: os.kill(pid, signal.SIGSTOP)),
    "end its group": outcome(lambda: os.killpg(os.getpgid(pid), signal.SIGKILL)),
    "trace": outcome(lambda: call(ptrace, 16, pid, None, None)),
    "environment": outcome(lambda: Path(f"/proc/{pid}/environ").read_bytes()),
    "memory": outcome(lambda: open(f"/proc/{pid}/mem", "r+b").close()),
    "memory by a call": outcome(read_memory),
    "open files": outcome(lambda: os.readlink(f"/proc/{pid}/fd/0")),
    "folder": outcome(lambda: os.listdir(f"/proc/{pid}/cwd/")),
    "maps": outcome(lambda: Path(f"/proc/{pid}/maps").read_text()),
    "score": outcome(lambda: Path(f"/proc/{pid}/oom_score_adj").write_text("1000")),
    "abstract socket": outcome(dial),
    "its files": outcome(lambda: canary.write_text("x")),
    "limits": outcome(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1 << 40, resource.RLIM_INFINITY))),
    "cores": outcome(lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid))),
    "priority": outcome(lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + 1)),
    "scheduling": outcome(lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))),
    "priority of disk": outcome(lambda: call(ioprio, 1, pid, 3 << 13)),
}))
"""
#: What one process may do to another of its user that has no more rights, whatever Landlock and seccomp say.
OPEN_TO_THE_SAME = {"cores", "priority", "scheduling", "priority of disk"}


def victim_of(uid: int | None) -> subprocess.Popen[bytes]:
    """A process that is not in the attacker's sandbox; of that user with no more rights than the attacker."""

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
        )

    return start() if uid is None else sandbox.started(sandbox.Reach(), start, uid)


@pytest.mark.parametrize("user", ["drawn", "same", "ordinary"])
def test_no_other_process_is_ended_read_or_held_up(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user of its own it can change nothing of another process, nor as root without root's rights; as the same
    ordinary user the other's priority and cores, and that only.
    """
    if user != "ordinary" and os.getuid() != 0:
        pytest.skip("this process is no root's")
    if user == "drawn" and not account.can_draw():
        pytest.skip("only root gives processes a user of their own")
    monkeypatch.setenv(account.USER, "same" if user == "same" else "drawn")
    uid = sandbox.draw()
    canary = tmp_path / "canary"
    canary.write_text("kept")
    abstract = f"inferbench-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as listener,
        victim_of(uid if user == "ordinary" else None) as victim,
    ):
        listener.bind("\0" + abstract)
        listener.listen()
        command = [sys.executable, "-c", ATTEMPTS, str(victim.pid), abstract, str(canary)]

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, capture_output=True, text=True)

        done = sandbox.started(sandbox.Reach(), run, uid)
        alive = victim.poll() is None
        victim.kill()
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert alive and canary.read_text() == "kept" and len(outcomes) == 19
    # What the process may not even ask the kernel about ends in a question that is refused.
    succeeded = {name for name, outcome in outcomes.items() if outcome == "done"}
    assert succeeded == (OPEN_TO_THE_SAME if user == "ordinary" else set())


BOMB = """
import os, resource, sys, threading, time
children = 0
try:
    while children < 5000:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        children += 1
except OSError as error:
    print("processes", children, type(error).__name__)
try:
    threading.Thread(target=time.sleep, args=(600,)).start()
except RuntimeError:
    print("thread refused")
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError as error:
    print("files", len(files), error.errno)
files.clear()
try:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
except OSError as error:
    print("file", os.path.getsize(sys.argv[1]), error.errno)
for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1))
        print("raised", kind)
    except (ValueError, OSError):
        pass
print("core", resource.getrlimit(resource.RLIMIT_CORE), flush=True)
os._exit(0)
"""


def test_a_bomb_of_processes_files_or_bytes_meets_the_kernels_bounds(tmp_path: Path) -> None:
    """It has so many processes, open files and bytes in a file and no more, raises none of them, dumps no core, and all
    that it started and let go is ended with it.
    """
    uid = sandbox.draw()
    if uid is None and os.getuid() == 0:
        pytest.skip("the kernel bounds no processes of root's, who waits for them does (test_watch)")
    bounds = sandbox.Bounds(tasks=sandbox.Bounds.of(uid).tasks, file_bytes=3 << 20, files=200)
    assert bounds.tasks is not None
    bounds = sandbox.Bounds(tasks=bounds.tasks - 4096 + 40, file_bytes=3 << 20, files=200)
    command = [sys.executable, "-c", f"input()\n{BOMB}", str(tmp_path / "large")]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    process = sandbox.started(sandbox.Reach(writes=(str(tmp_path),)), start, uid)
    try:
        sandbox.bounded(process.pid, uid, bounds)
        assert process.stdin and process.stdout
        process.stdin.write("\n")
        process.stdin.flush()
        lines = [process.stdout.readline().split() for _ in range(5)]
    finally:
        group.end(process.pid, uid)
        process.communicate()
    processes, thread, files, file, core = lines
    assert processes[0] == "processes" and 0 < int(processes[1]) <= 40 and processes[2] == "BlockingIOError"
    assert thread == ["thread", "refused"]
    assert files[0] == "files" and int(files[1]) < 200 and int(files[2]) == errno.EMFILE
    assert file == ["file", str(3 << 20), str(errno.EFBIG)]
    assert core == ["core", "(0,", "0)"]
    assert group.members(process.pid, uid) == []
