"""The keeper of a local system: what dies is started again.

    python -m inferbench_tasks.provider.system.keeper HOME

It reads what to run from ``HOME/parts.json`` and the environment from its own, and writes what runs to
``HOME/processes.json``. It is the first to be ended by ``inferbench down``.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from inferbench_tasks import settings
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system import processes
from inferbench_tasks.provider.system.processes import Process
from inferbench_tasks.stores.ledger import Ledger

log = logging.getLogger("inferbench.keeper")

LOOK_S = 1.0
#: Seconds between two looks at what other hosts ask for.
ASKED_S = 3.0
#: A part that dies again and again is started less and less often.
FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S = 1.0, 60.0, 120.0


class Keeper:
    """Of the system in ``home``."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.parts: dict[str, list[str]] = json.loads((home / "parts.json").read_text())
        self.running: dict[str, Process] = {
            p.name: p for p in processes.load(home / "processes.json") if p.name in self.parts
        }
        self.pause_s = dict.fromkeys(self.parts, FIRST_PAUSE_S)
        self.start_at = dict.fromkeys(self.parts, 0.0)
        self.stop = False

    def run(self) -> None:
        """Until SIGTERM; what it started goes on then."""
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._answer_hosts, name="artifacts", daemon=True).start()
        while not self.stop:
            for name in self.parts:
                self._keep(name)
            self._keep_perfdb()
            time.sleep(LOOK_S)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True

    def _keep(self, name: str) -> None:
        process = self.running.get(name)
        if process and process.alive():
            return
        now = time.time()
        if process and self.start_at[name] <= process.started:
            steady = now - process.started > STEADY_S
            self.pause_s[name] = FIRST_PAUSE_S if steady else min(LONGEST_PAUSE_S, 2 * self.pause_s[name])
            self.start_at[name] = now + self.pause_s[name]
            log.warning("%s (pid %d) has died; again in %.0f s", name, process.pid, self.pause_s[name])
            processes.end_session(process.pid)
        if now >= self.start_at[name] and not self.stop:
            started = processes.start(name, self.parts[name], dict(os.environ), self.home / "logs")
            self.running[name] = started
            self.start_at[name] = 0.0
            log.warning("started %s (pid %d)", name, started.pid)
            me = [p for p in processes.load(self.home / "processes.json") if p.name == KEEPER]
            processes.save(self.home / "processes.json", [*me, *self.running.values()])

    def _answer_hosts(self) -> None:
        """Store what workers of other hosts ask for; in a process behind all others, where host tasks are run."""
        host = self.parts.get("worker-host", [])
        prefix = host[: host.index(sys.executable)] if sys.executable in host else []
        behind = [*prefix, sys.executable, "-m", "inferbench_tasks.background"]
        command = [*behind, sys.executable, "-m", "inferbench_tasks.cli.main", "artifacts", "put"]
        while True:
            time.sleep(ASKED_S)
            try:
                if settings.perfdb_uri() is None and not embedded.status(settings.data_dir())["running"]:
                    continue
                with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
                    home = settings.home_id(settings.data_dir())
                    while True:
                        if Ledger(db, patience_s=ASKED_S).wanted_of(home):
                            subprocess.run(command, check=False, stdin=subprocess.DEVNULL)
                        time.sleep(ASKED_S)
            except InferBenchError as error:
                log.warning("PerfDB can't be asked what other hosts need: %s", error)

    def _keep_perfdb(self) -> None:
        if settings.perfdb_uri() is not None or embedded.status(settings.data_dir())["running"]:
            return
        try:
            embedded.ensure(settings.data_dir())
            log.warning("started PerfDB's mongod")
        except InferBenchError as error:
            log.warning("PerfDB can't be started: %s", error)


KEEPER = "keeper"

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    Keeper(Path(sys.argv[1])).run()
