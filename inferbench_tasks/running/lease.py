"""One job at a time on this machine: a lease, kept in a file, from a job's first stage to its last.

Two jobs at once would measure each other. Under our own executor the scheduler leases devices; everywhere
else (``inferbench run``, a stock executor) the stages' border takes this lease. It is a file and not a
lock, because under Airflow each stage of a job is a process of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from filelock import FileLock

from inferbench_tasks.errors import CancelledError

#: Between two stages of a job under Airflow no process of it runs; longer than that, and it has died.
GAP_S = 60.0
POLL_S = 0.5


@dataclass(frozen=True)
class Holder:
    """Who holds the lease: a run, and the process that last worked on it.

    ``lasting`` is true where that process runs all stages of the job, so that its end is the job's.
    """

    run_id: str
    pid: int
    started: float
    renewed: float
    lasting: bool

    def gone(self, now: float) -> bool:
        """Whether nobody works on that run any more."""
        try:
            if abs(psutil.Process(self.pid).create_time() - self.started) < 0.1:
                return False
        except psutil.NoSuchProcess:
            pass
        return self.lasting or now - self.renewed > GAP_S


class MachineLease:
    """The lease of a data directory's machine."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "machine.lease"
        self._lock = FileLock(str(data_dir / "machine.lock"))
        #: The run that held it until its process was killed, with all of its stages: ``acquire`` took it from that.
        self.forsaken: str | None = None

    def holder(self) -> Holder | None:
        """Who holds it; None if it is free or its holder is gone."""
        held = self._last()
        return None if held is None or held.gone(time.time()) else held

    def _last(self) -> Holder | None:
        """Who took it last and has not given it back."""
        try:
            return Holder(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None

    def acquire(
        self, run_id: str, *, lasting: bool, say: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> bool:
        """Take or renew the lease for a run; waits while another run holds it. Whether it had to.

        Raises CancelledError if ``cancelled()`` turns true meanwhile.
        """
        reported = None
        while True:
            with self._lock:
                last, held = self._last(), self.holder()
                if held is None or held.run_id == run_id:
                    if last is not None and last.lasting and last.run_id != run_id:
                        self.forsaken = last.run_id
                    me = psutil.Process()
                    self._write(Holder(run_id, os.getpid(), me.create_time(), time.time(), lasting))
                    return reported is not None
            if reported != held.run_id:
                say(f"waiting: run {held.run_id} is using this machine")
                reported = held.run_id
            if cancelled():
                raise CancelledError(f"Cancelled while waiting for run {held.run_id}.")
            time.sleep(POLL_S)

    def release(self, run_id: str) -> None:
        """Give the lease back; harmless if that run does not hold it."""
        with self._lock:
            held = self.holder()
            if held is not None and held.run_id == run_id:
                self._path.unlink()

    def _write(self, holder: Holder) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(holder)))
        os.replace(temporary, self._path)
