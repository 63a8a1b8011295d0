"""Whether what was written down about the server is still true."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from inferbench_tasks.perfdb.credentials import Credentials
from inferbench_tasks.perfdb.server_state import FILE, ServerState, running_on


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "created_s": 1, "port": 2}', "\0"]
)
def test_an_unreadable_state_is_no_state(tmp_path: Path, text: str) -> None:
    """A torn or foreign file never stops anyone; the server is then found by its data."""
    (tmp_path / FILE).write_text(text)
    assert ServerState.read(tmp_path) is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """State survives the way through its file, and nothing else is left there."""
    state = ServerState(1, 2.5, 3, "/bin/mongod")
    state.write(tmp_path)
    assert ServerState.read(tmp_path) == state
    assert [p.name for p in tmp_path.iterdir()] == [FILE]


def test_another_process_is_not_the_server(tmp_path: Path) -> None:
    """A live process with the written pid, even with its creation time, is not our mongod."""
    mine = psutil.Process()
    assert not ServerState(mine.pid, mine.create_time(), 1, "x").is_alive(tmp_path)
    (tmp_path / "mongod.lock").write_text(f"{os.getpid()}\n")
    assert running_on(tmp_path) is None


def test_its_uri_is_known_again() -> None:
    """Any database and options of our address are ours; another port is not."""
    state = ServerState(1, 1.0, 2700, "x")
    assert state.serves(state.uri(Credentials("key")))
    assert state.serves("mongodb://127.0.0.1:2700/test?replicaSet=inferbench")
    assert not state.serves("mongodb://127.0.0.1:2701/?replicaSet=inferbench")
    assert not state.serves("mongodb://127.0.0.1:2700/")
