"""Starting what stands on a job's own host and waits there for the other host of the job to connect.

It is a process of the run, registered as its servers are, so that whatever ends these ends it too.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from inferbench_tasks import private, settings
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.errors import ServerError
from inferbench_tasks.interrupt import deferred
from inferbench_tasks.launchers import records
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.strangers_folder import end_of, opened, read

#: How long it may take to say where it listens.
START_S = 20.0


def start(
    module: str, name: str, run_id: str, folder: Path, servers_dir: Path, order: str, told: Path
) -> Invitation:
    """Run ``python -m MODULE`` with a file that holds ``order``; what it writes to ``told``, and is removed then.

    ``name``: of its log and its order in ``folder``, which is none that a server or ranks may write in: there are
    secrets of the run in them. ServerError where it does not say where it listens.
    """
    from inferbench_tasks.launchers import processes

    token = f"{run_id}-{secrets.token_hex(4)}"
    record = ServerRecord(run_id=run_id, token=token, launcher="process")
    log_path, order_path = folder / f"{name}.log", folder / f"{name}.json"
    told.unlink(missing_ok=True)
    private.write(order_path, order)  # a secret of the run may be in it
    with deferred():
        records.write(servers_dir, record)
        with opened(log_path, "ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", module, str(order_path)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env=os.environ | {processes.MARK: token},
            )  # fmt: skip
        handle = ServerHandle(
            launcher="process",
            pid=child.pid,
            started_ns=processes.created_ns(child.pid),
            log_path=str(log_path),
            config_path=str(order_path),
        )
        records.write(servers_dir, record.model_copy(update={"server": handle}))
    deadline = time.monotonic() + START_S
    while not _written(told):
        if child.poll() is not None or time.monotonic() > deadline:
            end = end_of(log_path).strip().split("\n")[-1]
            raise ServerError(f"What waits here for the other host did not start: {end or 'it said nothing'}")
        time.sleep(0.02)
    invitation = Invitation.parse(read(told).decode(errors="replace"))
    told.unlink()
    return invitation


def leave(data_dir: Path) -> None:
    """Of the process that ``start`` began, as it ends by itself: it is one of the run's no more."""
    for path, record in records.read_all(settings.servers_dir(data_dir)).items():
        if record.server is not None and record.server.pid == os.getpid():
            path.unlink(missing_ok=True)


def _written(path: Path) -> bool:
    """Whether the line is in it: the file is there a moment before."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
