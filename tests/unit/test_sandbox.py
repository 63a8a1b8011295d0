"""What a process that makes models is kept from, tried by one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.errors import InputError

needs_landlock = pytest.mark.skipif(not sandbox.landlock_abi(), reason="this kernel has no Landlock")
TRY = """
import json, os, subprocess, sys
from pathlib import Path
from inferbench_tasks import sandbox
inside, outside, pid = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
before = len(os.listdir("/proc/self/task"))
sandbox.enter([str(inside), "/no/such/folder"])
def outcome(act):
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"
print(json.dumps({
    "threads": before,
    "write inside": outcome(lambda: (inside / "a").write_text("x")),
    "rename inside": outcome(lambda: (inside / "a").rename(inside / "b")),
    "read outside": outcome(lambda: (outside / "kept").read_text()),
    "write outside": outcome(lambda: (outside / "new").write_text("x")),
    "append outside": outcome(lambda: open(outside / "kept", "a").close()),
    "truncate outside": outcome(lambda: os.truncate(outside / "kept", 0)),
    "remove outside": outcome(lambda: (outside / "kept").unlink()),
    "rename outside": outcome(lambda: (outside / "kept").rename(outside / "other")),
    "move out": outcome(lambda: (inside / "b").rename(outside / "b")),
    "make folder outside": outcome(lambda: (outside / "d").mkdir()),
    "link outside": outcome(lambda: (outside / "l").symlink_to("/")),
    "fifo outside": outcome(lambda: os.mkfifo(outside / "f")),
    "by a program": subprocess.run(["touch", str(outside / "p")], capture_output=True).returncode != 0,
    "signal": outcome(lambda: os.kill(pid, 0)),
    "privileges": "NoNewPrivs:\\t1" in Path("/proc/self/status").read_text(),
}))
"""
DENIED = (
    "write outside", "append outside", "truncate outside", "remove outside", "rename outside", "move out",
    "make folder outside", "link outside", "fifo outside",
)  # fmt: skip


@needs_landlock
def test_nothing_outside_its_folders_is_written(tmp_path: Path) -> None:
    """Not by any way to change a file, nor by a program that it starts; reading and its own folder stay."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    command = [sys.executable, "-c", TRY, str(inside), str(outside), str(os.getpid())]
    answer: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True, text=True).stdout
    )
    assert answer["threads"] == 1 and answer["privileges"] and answer["by a program"]
    assert [answer[name] for name in ("write inside", "rename inside", "read outside")] == ["done"] * 3
    assert {answer[name] for name in DENIED} <= {"PermissionError", "OSError"}
    assert (outside / "kept").read_text() == "kept" and len(list(outside.iterdir())) == 1
    if sandbox.landlock_abi() >= 6:
        assert answer["signal"] == "PermissionError"


def test_secrets_do_not_reach_such_a_process() -> None:
    """An allow-list, and of what it allows nothing that is called like a secret; PerfDB's address only if named."""
    secrets = {
        "AIRFLOW__API_AUTH__JWT_SECRET": "x", "AIRFLOW__CORE__FERNET_KEY": "x",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "x", "AIRFLOW__CELERY__BROKER_URL": "x", "INFERBENCH_PERFDB_URI": "x",
        "MONGO_INITDB_ROOT_PASSWORD": "x", "INFERBENCH_REDIS_PASSWORD": "x", "AWS_SECRET_ACCESS_KEY": "x",
        "HF_TOKEN": "x", "SSH_AUTH_SOCK": "x", "INFERBENCH_BROKER_URL": "x", "INFERBENCH_METADATA_DB": "x",
        "INFERBENCH_NIGHTLY_NOTIFY": "x", "HTTPS_PROXY": "http://user:x@proxy:1", "XDG_OTHER": "redis://:x@broker/0",
    }  # fmt: skip
    plain = {"PATH": "/bin", "HOME": "/root", "INFERBENCH_DATA_DIR": "/d", "LC_ALL": "C", "PYTHONPATH": "p"}
    assert sandbox.environment(secrets | plain) == plain
    also = sandbox.environment(secrets | plain, ["INFERBENCH_PERFDB_URI"])
    assert also == plain | {"INFERBENCH_PERFDB_URI": "x"}


def test_logins_of_package_indexes_reach_only_what_installs_for_itself() -> None:
    """The settings of installers are for who may install; the logins in them not for who runs a model of others."""
    open_ = {"PIP_INDEX_URL": "https://index/simple", "UV_LINK_MODE": "copy", "PATH": "/bin"}
    logins = {
        "PIP_EXTRA_INDEX_URL": "https://user:x@index/simple", "UV_INDEX_TEAM_PASSWORD": "x",
        "UV_DEFAULT_INDEX": "https://token@index/simple", "HTTPS_PROXY": "http://user:x@proxy:1",
    }  # fmt: skip
    every = open_ | logins
    assert sandbox.environment(every) == {"PATH": "/bin"}
    assert sandbox.environment(every, installs=True) == open_
    assert sandbox.environment(every, installs=True, credentials=True) == every
    assert sandbox.environment({"AWS_SECRET_KEY": "x"}, installs=True, credentials=True) == {}


def test_a_kernel_without_landlock_is_refused_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the record says what was missing, and ``off`` is said as well."""
    monkeypatch.setattr(sandbox, "landlock_abi", lambda: 0)
    sandbox.require()
    assert "no Landlock" in sandbox.state()
    monkeypatch.setenv(sandbox.SANDBOX, "require")
    with pytest.raises(InputError, match="no Landlock"):
        sandbox.require()
    monkeypatch.setenv(sandbox.SANDBOX, "off")
    sandbox.require()
    assert sandbox.state() == "off"
    monkeypatch.setenv(sandbox.SANDBOX, "maybe")
    with pytest.raises(InputError, match="allowed: on, require, off"):
        sandbox.setting()
