"""Unix sockets, processes and files, by the operating system's calls."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.stranger.ending import Ending, ending_of

PTRACE_ATTACH = 16


def connect(name: str) -> str:
    """To a Unix socket, of whatever kind it is; ``@`` begins a name in the abstract space."""
    address = "\0" + name[1:] if name.startswith("@") else name
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as connection:
            connection.settimeout(5)
            try:
                connection.connect(address)
            except OSError as error:
                if error.errno == 91:  # EPROTOTYPE: the socket is of another kind
                    continue
                raise
            return f"connected, kind {kind}"
    return "of no kind"


def process(pid: int) -> list[Ending]:
    """Look into it, signal it, trace it. Its command line is everybody's."""
    folder = Path(f"/proc/{pid}")
    libc = ctypes.CDLL(None, use_errno=True)

    def attach() -> None:
        if libc.ptrace(PTRACE_ATTACH, pid, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def maps() -> None:
        if not (folder / "maps").read_text():
            raise ProcessLookupError("it has ended, and nobody has asked how")

    acts: dict[str, Callable[[], object]] = {
        "environ": (folder / "environ").read_bytes,
        "memory": lambda: (folder / "mem").open("rb").close(),
        "maps": maps,
        "folder": lambda: os.readlink(folder / "cwd"),
        "root": lambda: os.listdir(folder / "root"),
        "files": lambda: os.listdir(folder / "fd"),
        "signal": lambda: os.kill(pid, signal.SIGCONT),
        "trace": attach,
    }
    endings = [ending_of(f"process-{name}", str(pid), act) for name, act in acts.items()]
    with contextlib.suppress(OSError):
        command = (folder / "cmdline").read_bytes().decode(errors="replace")
        endings.append({"what": "command", "where": str(pid), "ending": "public", "answer": command})
    return endings


def file(path: str) -> list[Ending]:
    """Read it, change it, put something beside it or into it."""
    acts: dict[str, Callable[[], object]] = {
        "read": lambda: os.close(os.open(path, os.O_RDONLY)),
        "write": lambda: os.close(os.open(path, os.O_WRONLY)),
        "list": lambda: os.listdir(path),
        "make": lambda: os.close(os.open(f"{path}/stranger", os.O_WRONLY | os.O_CREAT, 0o600)),
        "remove": lambda: os.unlink(path),
        "rename": lambda: os.rename(path, f"{path}.stranger"),
        "link": lambda: os.link(path, "/tmp/stranger"),
        "mode": lambda: os.chmod(path, 0o777),
    }
    endings = [ending_of(f"file-{name}", path, act) for name, act in acts.items()]
    if path.endswith(".db"):
        endings.append(ending_of("file-sqlite", path, lambda: _sqlite(path)))
    return endings


def _sqlite(path: str) -> object:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as connection:
            return connection.execute("SELECT name FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        raise PermissionError(str(error)) from error
