"""What ``inferbench doctor`` finds."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inferbench_tasks import private, sandbox, settings
from inferbench_tasks.cli.main import main
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.doctor import logins, modes, ports, programs, secrets
from inferbench_tasks.doctor.base import Advice, Check, Installation
from inferbench_tasks.launchers import processes, records
from inferbench_tasks.perfdb import credentials
from inferbench_tasks.sandbox import landlock

SLEEPER = "import time; time.sleep(60)"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed data directory with the files of a system."""
    monkeypatch.delenv(settings.PERFDB_URI, raising=False)
    folder = settings.writable(tmp_path / "data")
    # `--data-dir` sets it for its process, which is that of the tests to come: theirs is put back.
    monkeypatch.setenv(settings.DATA_DIR, str(folder))
    private.write(private.folder(folder / "system") / "secrets.json", '{"jwt": "a-drawn-secret"}')
    private.write(folder / "system" / "passwords.json", '{"admin": "twelve-or-more"}')
    credentials.drawn(private.folder(folder / "perfdb"))
    return folder


def findings(check: Check, data: Path) -> list[Advice]:
    advices = list(check(Installation(data)))
    assert advices
    assert all(a.remedy for a in advices if a.level == "finding")
    return [a for a in advices if a.level == "finding"]


@pytest.fixture
def sleeper(data: Path) -> Iterator[psutil.Process]:
    """A process that works on the data directory, with a secret in its environment; its record is a server's."""
    env = {"PATH": os.defpath, settings.DATA_DIR: str(data), "TOKEN": "a-drawn-secret"}
    child = subprocess.Popen([sys.executable, "-c", SLEEPER], env=env)
    process = psutil.Process(child.pid)
    handle = ServerHandle(
        launcher="process", pid=child.pid, started_ns=processes.created_ns(child.pid), log_path="x",
        config_path="x",
    )  # fmt: skip
    private.folder(data / "servers")
    records.write(data / "servers", ServerRecord(run_id="r", token="r-1", launcher="process", server=handle))
    yield process
    child.kill()
    child.wait()


def test_a_closed_directory_has_no_finding(data: Path) -> None:
    """Modes 700 and 600."""
    assert findings(modes.modes, data) == []


def test_a_readable_secret_and_an_open_folder_are_found(data: Path) -> None:
    """Each with the command that mends it."""
    data.chmod(0o755)
    (data / "perfdb" / "key").chmod(0o640)
    assert [a.what for a in findings(modes.modes, data)] == [
        f"other users may enter {data}",
        f"{data / 'perfdb' / 'key'} has mode 640",
    ]


def test_a_secret_in_a_servers_environment_is_found(data: Path, sleeper: psutil.Process) -> None:
    """By its value, whatever the variable's name; the value itself is not shown."""
    (finding,) = findings(secrets.secrets, data)
    assert "secrets.json:jwt" in finding.what
    assert str(sleeper.pid) in finding.what
    assert "a-drawn-secret" not in finding.model_dump_json()


def test_a_secret_in_a_command_line_is_found(data: Path) -> None:
    """Every local user reads command lines; the key of PerfDB counts as well as its password."""
    login = credentials.drawn(data / "perfdb")
    env = {"PATH": os.defpath, settings.DATA_DIR: str(data)}
    child = subprocess.Popen([sys.executable, "-c", SLEEPER, login.login], env=env)
    try:
        (finding,) = findings(secrets.secrets, data)
        assert "PerfDB's password in its command line" in finding.what
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(("host", "count"), [("127.0.0.1", 0), ("0.0.0.0", 1), ("::1", 0), ("::", 1)])
def test_a_port_for_other_machines_is_found(data: Path, host: str, count: int) -> None:
    """Loopback of both families is fine, all interfaces are not."""
    family = "AF_INET6" if ":" in host else "AF_INET"
    try:
        socket.socket(getattr(socket, family)).close()
        with socket.socket(getattr(socket, family)) as probe:
            probe.bind((host, 0))
    except OSError:
        pytest.skip(f"this machine has no {host}")
    code = f"import socket, time; s = socket.socket(socket.{family}); s.bind(({host!r}, 0)); s.listen()"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{code}; print(1, flush=True); time.sleep(60)"], stdout=subprocess.PIPE,
        env={"PATH": os.defpath, settings.DATA_DIR: str(data)},
    )  # fmt: skip
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert len(findings(ports.ports, data)) == count
    finally:
        child.kill()
        child.communicate()


def test_a_short_password_is_found(data: Path) -> None:
    """One that somebody chose in place of a drawn one."""
    private.write(data / "system" / "passwords.json", json.dumps({"admin": "admin", "viewer": "v" * 16}))
    (finding,) = findings(logins.passwords, data)
    assert "admin" in finding.what


def test_the_command_ends_with_1_on_a_finding(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And with 0 without; --json gives a list of check, level, what, remedy."""
    for mode, code in ((0o700, 0), (0o755, 1)):
        data.chmod(mode)
        with pytest.raises(SystemExit) as end:
            main(["--data-dir", str(data), "doctor", "--json"])
        rows = json.loads(capsys.readouterr().out)
        assert (end.value.code or 0) == code, rows
        assert {"check", "level", "what", "remedy"} == set(rows[0])


@pytest.mark.parametrize(
    ("setting", "abi", "level"),
    [("on", 7, "ok"), ("on", 0, "note"), ("on", 5, "note"), ("off", 7, "note"), ("no", 7, "finding")],
)
def test_what_models_are_kept_from_is_said_of_each_part(
    data: Path, monkeypatch: pytest.MonkeyPatch, setting: str, abi: int, level: str
) -> None:
    """It is in the sandbox that the kernel and the setting leave it; what is missing is said."""
    monkeypatch.setenv(sandbox.SANDBOX, setting)
    monkeypatch.setattr(landlock, "landlock_abi", lambda: abi)
    (advice,) = programs.sandbox(Installation(data))
    assert advice.level == level
    assert bool(advice.remedy) == (level != "ok")
    assert ("not kept in: " in advice.what) == (setting == "on" and abi < 6)
