"""The workers of a data directory, known by a file each, and how they are told to end with the jobs that they have."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from inferbench_tasks import private
from inferbench_tasks.workers.devices import host_name

FOLDER = "workers"


@contextlib.contextmanager
def entered(data_dir: Path) -> Iterator[None]:
    """This process is a worker of that data directory, as long as the block lasts."""
    path = private.folder(data_dir / FOLDER) / f"{host_name()}.{os.getpid()}.json"
    private.write(path, json.dumps({"pid": os.getpid(), "started": psutil.Process().create_time()}))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def workers(data_dir: Path) -> list[psutil.Process]:
    """Those that run. A worker that another one of them has started is told by that one, and is not among them."""
    running: dict[int, psutil.Process] = {}
    # Containers may share a data directory; each has processes, and a host's name, of its own.
    for path in sorted((data_dir / FOLDER).glob(f"{host_name()}.*.json")):
        try:
            record = json.loads(path.read_text())
            process = psutil.Process(record["pid"])
            if (
                abs(process.create_time() - record["started"]) < 1
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                running[process.pid] = process
                continue
        except (FileNotFoundError, psutil.NoSuchProcess):
            pass
        path.unlink(missing_ok=True)  # of a worker that was killed
    return [process for process in running.values() if process.ppid() not in running]


def drain(processes: list[psutil.Process]) -> None:
    """Tell each once, and return when all have ended, however long their jobs take."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(processes)
