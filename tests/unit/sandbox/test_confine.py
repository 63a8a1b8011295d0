"""What a process that makes or serves models is kept from, tried by one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.sandbox import account
from inferbench_tasks.sandbox.setting import missing

needs_all = pytest.mark.skipif(bool(missing()), reason=f"not kept in by this kernel: {missing()}")
TRY = """
import ctypes, json, mmap, os, resource, socket, subprocess, sys
from pathlib import Path
from inferbench_tasks import sandbox
inside, outside, pid = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
own_port, other_port, unix = int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
before = len(os.listdir("/proc/self/task"))
if sys.argv[7] == "enter":
    uid = sandbox.draw()
    sandbox.enter(sandbox.Reach(writes=(str(inside), "/no/such/folder"), binds=(own_port,)), uid)
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
def bind(port):
    with socket.create_server(("127.0.0.1", port)):
        pass
def dial(family, kind, address, protocol=0):
    with socket.socket(family, kind, protocol) as s:
        s.connect(address)
def fast_open():
    with socket.socket() as s:
        s.sendto(b"x", 0x20000000, ("127.0.0.1", other_port))
machine = os.uname().machine
ptrace, unshare, ring, bpf = {"x86_64": (101, 272, 425, 321), "aarch64": (117, 97, 425, 280)}[machine]
print(json.dumps({
    "threads": before,
    "write inside": outcome(lambda: (inside / "a").write_text("x")),
    "rename inside": outcome(lambda: (inside / "a").rename(inside / "b")),
    "read inside": outcome(lambda: (inside / "b").read_text()),
    "device": outcome(lambda: open("/dev/null", "w").close()),
    "bind own port": outcome(lambda: bind(own_port)),
    "thread": outcome(lambda: __import__("threading").Thread(target=print, args=("", )).start()),
    "pair": outcome(lambda: [s.close() for s in socket.socketpair()]),
    "read outside": outcome(lambda: (outside / "kept").read_text()),
    "list outside": outcome(lambda: os.listdir(outside)),
    "read passwords": outcome(lambda: open("/etc/shadow").read() if os.geteuid() == 0 else open(outside / "kept")),
    "read by a program": subprocess.run(["cat", str(outside / "kept")], capture_output=True).returncode != 0,
    "parent's environment": outcome(lambda: open(f"/proc/{pid}/environ").read()),
    "parent's memory": outcome(lambda: open(f"/proc/{pid}/mem", "rb").close()),
    "write outside": outcome(lambda: (outside / "new").write_text("x")),
    "append outside": outcome(lambda: open(outside / "kept", "a").close()),
    "truncate outside": outcome(lambda: os.truncate(outside / "kept", 0)),
    "remove outside": outcome(lambda: (outside / "kept").unlink()),
    "rename outside": outcome(lambda: (outside / "kept").rename(outside / "other")),
    "move out": outcome(lambda: (inside / "b").rename(outside / "b")),
    "make folder outside": outcome(lambda: (outside / "d").mkdir()),
    "link inside": outcome(lambda: (inside / "l").symlink_to("/")),
    "link outside": outcome(lambda: (outside / "l").symlink_to("/")),
    "fifo outside": outcome(lambda: os.mkfifo(outside / "f")),
    "by a program": subprocess.run(["touch", str(outside / "p")], capture_output=True).returncode != 0,
    "bind another port": outcome(lambda: bind(0)),
    "connect": outcome(lambda: dial(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", other_port))),
    "connect by the first packet": outcome(fast_open),
    "connect by MPTCP": outcome(lambda: dial(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", other_port), 262)),
    "datagram": outcome(lambda: dial(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", other_port))),
    "raw": outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "packets": outcome(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "kernel's sockets": outcome(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "unix socket": outcome(lambda: dial(socket.AF_UNIX, socket.SOCK_STREAM, unix)),
    "abstract socket": outcome(lambda: dial(socket.AF_UNIX, socket.SOCK_STREAM, chr(0) + unix)),
    "signal": outcome(lambda: os.kill(pid, 0)),
    "limits of others": outcome(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1 << 40, resource.RLIM_INFINITY))),
    "own limits": outcome(lambda: resource.setrlimit(resource.RLIMIT_CPU, (1 << 40, resource.RLIM_INFINITY))),
    "trace": outcome(lambda: call(ptrace, 16, pid, None, None)),
    "namespace": outcome(lambda: call(unshare, 0x10000000)),
    "rings": outcome(lambda: call(ring, 1, ctypes.create_string_buffer(200))),
    "kernel programs": outcome(lambda: call(bpf, 0, ctypes.create_string_buffer(200), 200)),
    "clock": outcome(lambda: __import__("time").clock_settime(0, __import__("time").time())),
    "privileges": "NoNewPrivs:\\t1" in Path("/proc/self/status").read_text(),
    "filtered": "Seccomp:\\t2" in Path("/proc/self/status").read_text(),
    "capabilities": int(Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0], 16),
    "later capabilities": int(Path("/proc/self/status").read_text().split("CapBnd:")[1].split()[0], 16),
}))
"""
#: What a process has to be able to do.
ALLOWED = (
    "write inside",
    "rename inside",
    "read inside",
    "device",
    "bind own port",
    "thread",
    "pair",
    "own limits",
)
TOLD = (
    "threads",
    "privileges",
    "filtered",
    "capabilities",
    "later capabilities",
    "by a program",
    "read by a program",
)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that is given, and one with a file that is not."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "kept").write_text("kept")
    return inside, outside


def tried(places: tuple[Path, Path], how: str) -> dict[str, Any]:
    """What a process could do that entered by itself, was started in the sandbox, or is free."""
    inside, outside = places
    unix = str(outside / "socket")
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as free:
        with socket.socket(socket.AF_UNIX) as local, socket.socket(socket.AF_UNIX) as abstract:
            for of, address in ((local, unix), (abstract, "\0" + unix)):
                of.bind(address)
                of.listen()
            own = free.getsockname()[1]
            free.close()
            ports = [str(own), str(other.getsockname()[1])]
            command = [
                sys.executable,
                "-c",
                TRY,
                str(inside),
                str(outside),
                str(os.getpid()),
                *ports,
                unix,
                how,
            ]

            def run() -> str:
                done = subprocess.run(command, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                return done.stdout

            reach = sandbox.Reach(writes=(str(inside),), binds=(own,))
            answer = sandbox.started(reach, run, sandbox.draw()) if how == "start" else run()
    Path(unix).unlink()
    document: dict[str, Any] = json.loads(answer)
    return document


@needs_all
@pytest.mark.parametrize("user", account.USERS)
@pytest.mark.parametrize("how", ["enter", "start"])
def test_nothing_outside_its_reach_is_touched(
    places: tuple[Path, Path], how: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by any way to read or change a file, to bind or connect, to reach a process or the kernel, nor by a program
    that it starts; what it is given stays.
    """
    monkeypatch.setenv(account.USER, user)
    answer = tried(places, how)
    assert answer["threads"] == 1 and answer["privileges"] and answer["filtered"]
    assert answer["by a program"] and answer["read by a program"]
    assert {name: answer[name] for name in ALLOWED} == dict.fromkeys(ALLOWED, "done")
    denied = {name: value for name, value in answer.items() if name not in (*ALLOWED, *TOLD)}
    assert len(denied) == 32
    assert {
        name: value for name, value in denied.items() if value not in ("PermissionError", "OSError")
    } == {}
    assert answer["capabilities"] & ~0b1011 == 0 and answer["later capabilities"] & ~0b1011 == 0
    outside = places[1]
    assert (outside / "kept").read_text() == "kept" and len(list(outside.iterdir())) == 1


@needs_all
def test_who_starts_a_program_in_the_sandbox_stays_outside(places: tuple[Path, Path]) -> None:
    """Its files, ports and privileges are what they were, in the same thread and in new ones."""
    status = Path("/proc/self/status").read_text()
    assert sandbox.started(sandbox.Reach(), os.getpid) == os.getpid()
    assert (places[1] / "kept").read_text() == "kept"
    after = Path("/proc/self/status").read_text()
    for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp"):
        assert status.split(f"{name}:")[1].split()[0] == after.split(f"{name}:")[1].split()[0]


def test_what_a_start_raises_is_raised() -> None:
    """A program that is not there is told as without the sandbox."""

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/no/such/program"])

    with pytest.raises(FileNotFoundError):
        sandbox.started(sandbox.Reach(), start)


@needs_all
def test_a_folder_for_folders_takes_no_files(places: tuple[Path, Path]) -> None:
    """Folders may be made and removed there, files neither written nor read."""
    outside = places[1]

    def attempt() -> list[str]:
        results = []
        for act in (
            (outside / "d").mkdir,
            (outside / "d").rmdir,
            lambda: (outside / "x").write_text(""),
            (outside / "kept").read_text,
        ):
            try:
                act()
                results.append("done")
            except PermissionError:
                results.append("refused")
        return results

    assert sandbox.started(sandbox.Reach(folders=(str(outside),)), attempt) == [
        "done",
        "done",
        "refused",
        "refused",
    ]


INTERFACES = """
import json, socket, sys
from inferbench_tasks import sandbox
sandbox.enter(sandbox.Reach(interfaces=sys.argv[1] == "yes"))
def outcome(act):
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"
print(json.dumps([
    outcome(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()),
    outcome(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close()),
    outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()),
    outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()),
]))
"""


@needs_all
@pytest.mark.parametrize(("asks", "first"), [("yes", "done"), ("no", "PermissionError")])
def test_only_who_says_so_asks_the_kernel_for_its_interfaces(asks: str, first: str) -> None:
    """Routes' netlink and no other; what else it may open is as before."""
    command = [sys.executable, "-c", INTERFACES, asks]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [first, "PermissionError", "PermissionError", "done"]
