"""The order for the stranger, and its answers.

The attempts are made by a process of that user (``python -m tests.stranger``), started as root, which has nothing of
root left before the first one. Each attempt says how it ended; the tests say which endings are fine.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks.doctor.base import Installation
from inferbench_tasks.doctor.ports import listening
from inferbench_tasks.perfdb import credentials
from tests.stranger.ending import Ending
from tests.stranger.web import FORGED

ROOT = Path(__file__).parents[2]
UID = 65534
#: How an attempt ends that got nothing, by what was tried first. A process may have ended meanwhile; a folder can't be
#: opened for writing by anybody; ``page`` is Airflow's, which asks for a login whatever the path is.
_SYSTEM = {"PermissionError"}
_HTTP = {"401", "403", "404", "405", "429", "page"}
REFUSALS: dict[str, set[str]] = {
    "file": _SYSTEM | {"IsADirectoryError"},
    "write": _SYSTEM | {"FileNotFoundError"},
    "socket": _SYSTEM | {"ConnectionRefusedError", "FileNotFoundError"},
    "process": _SYSTEM | {"FileNotFoundError", "ProcessLookupError"},
    "command": {"public"},
    "http": _HTTP,
    "redis": {"-NOAUTH", "-WRONGPASS"},
    "mongo": {"Unauthorized", "AuthenticationFailed"},
    # No such route or service, not for everybody; 503, UNAVAILABLE: Triton's, whose model control is off.
    "model": _HTTP | {"503", "UNIMPLEMENTED", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNAVAILABLE"},
    "port": set(),
}
#: What the web port answers to everybody: the login, what is running, whether it does.
OPEN = {
    "GET /auth/login", "GET /api/v2/monitor/health", "GET /api/v2/version", "GET /execution/health",
}  # fmt: skip
#: Of a data directory, so that a large one takes no minutes.
MAX_FILES = 5000

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another local user needs root")


def attempts(data_dir: Path, model: str) -> list[Ending]:
    """All that a stranger can try with the system of a data directory, and with its servers of ``model``."""
    place = Installation(data_dir)
    model_ports = {port for process in place.servers for _, port in listening(process)}
    ports = {port for process in place.processes for _, port in listening(process)}
    order = {
        "ports": sorted(ports - model_ports),
        "model_ports": sorted(model_ports),
        "model": model,
        "sockets": sorted({name for process in place.processes for name in _unix(process)}),
        "pids": [process.pid for process in place.processes],
        "files": [str(path) for path in _files(data_dir)],
        "foreign": sorted({name for process in place.processes for name in _written(process, data_dir)}),
    }
    with _reachable(data_dir):
        return ask(order)


def ask(order: dict[str, Any]) -> list[Ending]:
    """Let the stranger try what ``order`` names."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.stranger"], cwd=ROOT, input=json.dumps(order | {"uid": UID}),
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    endings: list[Ending] = json.loads(process.stdout)
    return endings


def secrets_of(data_dir: Path) -> list[str]:
    """Every drawn secret of a system."""
    home = data_dir / "system"
    drawn = [json.loads((home / name).read_text()) for name in ("secrets.json", "passwords.json")]
    texts = [str(value) for group in drawn for value in group.values()]
    if login := credentials.read(data_dir / "perfdb"):
        texts += [login.key, login.password]
    return texts


def succeeded(endings: list[Ending], secrets: Sequence[str] = ()) -> list[Ending]:
    """Those attempts that got what they should not have, or an answer with a secret in it."""
    return [
        ending
        for ending in endings
        if (
            ending["ending"] not in REFUSALS[ending["what"].partition("-")[0]]
            and not (ending["what"] == "http" and ending["ending"] == "200" and _is_open(ending["where"]))
        )
        or any(secret in ending.get("answer", "") for secret in secrets)
    ]


def _is_open(where: str) -> bool:
    """Whether a route, after its port, answers everybody."""
    return where.partition(" ")[2].removesuffix(FORGED) in OPEN


@contextmanager
def _reachable(folder: Path) -> Iterator[None]:
    """The folders above may be entered by everyone meanwhile: it is this one's own modes that keep others out."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.absolute().parents}
    modes = {path: mode for path, mode in modes.items() if mode & 0o011 != 0o011}
    try:
        for path, mode in modes.items():
            path.chmod(mode | 0o011)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _files(data_dir: Path) -> list[Path]:
    """The directory, what is in it, secrets first."""
    paths = sorted(data_dir.rglob("*"), key=lambda path: (path.parts[-2] not in ("system", "perfdb"), path))
    return [data_dir, *paths[:MAX_FILES]]


def _unix(process: psutil.Process) -> list[str]:
    """The Unix sockets of a process that have a name; ``@`` begins one in the abstract space."""
    try:
        return [str(s.laddr) for s in process.net_connections("unix") if s.laddr]
    except psutil.Error:
        return []


def _written(process: psutil.Process, data_dir: Path) -> list[str]:
    """What it has open for writing outside of the data directory."""
    try:
        files = process.open_files()
    except psutil.Error:
        return []
    return [f.path for f in files if f.mode != "r" and not Path(f.path).is_relative_to(data_dir)]
