"""The embedded PerfDB: a real mongod of this user, on this machine, found or started by ``ensure``.

It listens on loopback only, lets in whoever has its key, and outlives the process that started it, until
``stop``. Everything lies in ``<data>/perfdb``: ``db/`` (its data), ``key`` (see ``credentials``), ``mongod.log``,
``server.json`` (where it runs; replaced atomically), ``lock`` (held while it is started or stopped). Six processes
that call ``ensure`` at once get one server.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import psutil

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.perfdb import credentials, launch, replicaset
from inferbench_tasks.perfdb import folder as folders
from inferbench_tasks.perfdb.server_state import ServerState

log = logging.getLogger(__name__)

#: How long a live server may take to answer a ping.
PING_TIMEOUT_S = 10.0
QUICK_PING_S = 2.0


def ensure(data_dir: Path) -> str:
    """The URI of the embedded server of that data directory, which is started if it does not run.

    Raises StorageError (folder not writable, not ours, no space) and PerfDBError (no program, no AVX,
    not started in time); each message names the remedy.
    """
    folder = folders.usable(data_dir)
    state, login = _alive(folder), credentials.read(folder)
    if state and login and replicaset.takes_login(state.port, QUICK_PING_S, login):
        return state.uri(login)
    with folders.locked(folder):
        login = credentials.drawn(folder)
        state = _alive(folder) or launch.adopted(folder)
        if state is not None and not state.asks_for_login():
            log.warning("the embedded mongod of an earlier version asks for no login: it is started again")
            launch.end(state.pid)
            state = None
        if state is not None and replicaset.db_path(state.port, PING_TIMEOUT_S, login) == str(folder / "db"):
            if launch.wait_for_primary(state, folder, time.monotonic() + launch.START_TIMEOUT_S):
                return state.uri(login)
        elif state is not None and state.is_alive(folder / "db"):
            raise PerfDBError(
                f"The embedded mongod (pid {state.pid}, port {state.port}) runs and does not answer within "
                f"{PING_TIMEOUT_S:.0f} s. See {folder / 'mongod.log'}; `inferbench perfdb stop` ends it."
            )
        return launch.start(folder).uri(login)


def status(data_dir: Path) -> dict[str, Any]:
    """What is known without starting anything: ``running``, ``pid``, ``port``, ``uri`` (with its login), memory."""
    folder = folders.place(data_dir)
    state = _alive(folder)
    fields: dict[str, Any] = {"server": "embedded", "running": state is not None, "folder": str(folder)}
    if state is None:
        return fields
    fields |= {"pid": state.pid, "port": state.port, "program": state.program}
    if login := credentials.read(folder):
        fields["uri"] = state.uri(login)
    fields["memory_bytes"] = psutil.Process(state.pid).memory_info().rss
    return fields


def stop(data_dir: Path) -> bool:
    """End the embedded server cleanly (by force after 30 s); False if none was running."""
    folder = folders.place(data_dir)
    if not folder.exists():
        return False
    folders.require_ours(folder)
    with folders.locked(folder):
        state = _alive(folder) or launch.adopted(folder)
        if state is None:
            return False
        launch.end(state.pid)
    return True


def owns(uri: str, data_dir: Path) -> bool:
    """Whether that URI names this data directory's embedded server, running or not."""
    state = ServerState.read(folders.place(data_dir))
    return state is not None and state.serves(uri)


def _alive(folder: Path) -> ServerState | None:
    state = ServerState.read(folder)
    return state if state and state.is_alive(folder / "db") else None
