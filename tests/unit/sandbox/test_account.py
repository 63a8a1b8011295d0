"""Users of their own for processes in the sandbox."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.errors import InputError
from inferbench_tasks.sandbox import account

as_root = pytest.mark.skipif(not account.can_draw(), reason="only root gives processes a user of their own")


def test_a_setting_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what is allowed."""
    monkeypatch.setenv(account.USER, "nobody")
    with pytest.raises(InputError, match="allowed: drawn, same"):
        account.draw()
    monkeypatch.setenv(account.USER, "same")
    assert account.draw() is None


@as_root
def test_each_process_has_another_user() -> None:
    """Which has no name, and whose processes are nobody else's."""
    uids = {account.draw() for _ in range(20)}
    assert len(uids) == 20 and None not in uids
    assert account.names(max(filter(None, uids))) == account.NAMES and account.names(None) == {}


@as_root
def test_where_few_users_are_mapped_a_small_range_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a user namespace; where none is, there is none."""
    monkeypatch.setattr(account, "_is_mapped", lambda numbers: numbers is account._SMALL)
    assert account.draw() in account._SMALL
    monkeypatch.setattr(account, "_is_mapped", lambda numbers: False)
    assert account.draw() is None


@as_root
def test_the_thread_that_becomes_another_user_is_the_only_one() -> None:
    """The program that it starts is that user with a group of the same number; this process stays who it was."""
    uid = account.draw()
    code = "import os; print(os.getresuid(), os.getresgid(), os.getgroups())"

    def run() -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    text = sandbox.started(sandbox.Reach(), run, uid)
    # What ``getgroups`` tells of the group itself differs by kernel: it may be listed or not.
    assert text.startswith(f"{(uid,) * 3} {(uid,) * 3} ") and text.split(") ")[-1].strip() in (
        "[]",
        f"[{uid}]",
    )
    assert os.getresuid() == (0, 0, 0)


@as_root
def test_files_are_reached_as_before(tmp_path: Path) -> None:
    """What only its owner may read and write is read and written where the reach says so, and what asks first is told
    the same.
    """
    (tmp_path / "closed").write_text("kept")
    (tmp_path / "closed").chmod(0o600)
    tmp_path.chmod(0o700)
    code = "import os, sys; print(os.access(sys.argv[1], os.R_OK | os.W_OK), open(sys.argv[1], 'a').tell())"

    def run() -> str:
        command = [sys.executable, "-c", code, str(tmp_path / "closed")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert sandbox.started(sandbox.Reach(writes=(str(tmp_path),)), run, account.draw()).split() == [
        "True",
        "4",
    ]
