"""Watching a server while it is under load.

with MonitorSession(server, run_dir / "monitors.parquet"):
    ...  # the load
"""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from inferbench_tasks.contracts.handles import Endpoint, ServerHandle
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors.base import MONITORS, Target
from inferbench_tasks.monitors.records import convert_spool

log = logging.getLogger(__name__)
_END_TIMEOUT_S = 5.0
#: A sampler that has not read its monitors by then is not waited for: the load's verdict says what it did not see.
_FIRST_READING_TIMEOUT_S = 10.0
EXPORTERS = "INFERBENCH_EXPORTERS"


class MonitorSession:
    """Samples the monitors in a process of its own until it is left; then the recording lies at ``path``.

    What happens inside is seen from its beginning: entering it waits for the first reading of all monitors.
    ``replicas``: further servers, watched with the first as one; ``balancer``: what stands before them.
    It never fails a load: what goes wrong with the sampler is written into the recording (``problem``).
    Raises StorageError on leaving if the recording can't be written.
    """

    def __init__(
        self,
        server: ServerHandle,
        path: Path,
        interval_s: float = 0.1,
        *,
        device: str = "cpu",
        metrics_url: str | None = None,
        exporters: dict[str, str] | None = None,
        kinds: Iterable[str] | None = None,
        beside: Iterable[ServerHandle] = (),
        replicas: Iterable[ServerHandle] = (),
        balancer: ServerHandle | None = None,
        side: Literal["both", "server"] = "both",
    ) -> None:
        target = Target(
            pid=server.pid,
            started_ns=server.started_ns,
            device=device,
            container_id=server.container_id,
            metrics_url=metrics_url,
            exporters=tuple((exporters if exporters is not None else named_exporters()).items()),
            beside=tuple(handle.pid for handle in beside),
            replicas=tuple(handle.pid for handle in replicas),
            balancer=balancer.pid if balancer else 0,
            side=side,
        )
        usual = [kind for kind in MONITORS if kind != "balancer" or balancer is not None]
        self._watch(target, path, interval_s, usual if kinds is None else kinds)

    @classmethod
    def of_client(cls, path: Path, interval_s: float = 0.1) -> MonitorSession:
        """Of the load's own host, where the server is on another one."""
        session = cls.__new__(cls)
        session._watch(
            Target(pid=0, started_ns=0, side="client"), path, interval_s, ("client", "host", "wait")
        )
        return session

    def _watch(self, target: Target, path: Path, interval_s: float, kinds: Iterable[str]) -> None:
        self.path = path
        self._spool = path.with_name(path.name + ".spool")
        self._config = {
            "target": asdict(target),
            "interval_s": interval_s,
            "kinds": list(kinds),
            "spool": str(self._spool),
        }
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MonitorSession:
        self._spool.unlink(missing_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._spool.with_suffix(".log"), "wb") as errors:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "inferbench_tasks.monitors.sampler", json.dumps(self._config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a Ctrl-C is the load's to handle; the sampler ends with it
            )
        try:
            self._wait_for_the_first_reading()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def _wait_for_the_first_reading(self) -> None:
        """On a busy machine a process takes a second to start, and nobody would have seen that part of a load."""
        assert self._child is not None and self._child.stdout is not None
        with self._child.stdout as stdout:
            poller = select.poll()
            poller.register(stdout.fileno(), select.POLLIN)
            if not poller.poll(_FIRST_READING_TIMEOUT_S * 1e3):
                log.warning("the monitors have read nothing in %g s: going on", _FIRST_READING_TIMEOUT_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.close()
        problem = None
        try:
            code = self._child.wait(_END_TIMEOUT_S)
            if code:
                problem = f"the sampler ended with exit code {code}: {self._log_end()}"
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            problem = f"the sampler did not end within {_END_TIMEOUT_S:g} s and was killed"
        if problem:
            log.warning("monitors incomplete: %s", problem)
        convert_spool(self._spool, self.path, problem)
        self._spool.unlink(missing_ok=True)
        self._spool.with_suffix(".log").unlink(missing_ok=True)

    def _log_end(self) -> str:
        text = self._spool.with_suffix(".log").read_text(errors="replace").strip()
        return text.split("\n")[-1][:500] if text else "it said nothing"


def named_exporters() -> dict[str, str]:
    """Exporters beside the server, from ``INFERBENCH_EXPORTERS``: ``node=http://host:9100/metrics,dcgm=...``."""
    pairs = [entry.partition("=") for entry in os.environ.get(EXPORTERS, "").split(",") if entry.strip()]
    if bad := [name for name, _, url in pairs if not url.startswith("http://")]:
        raise InputError(f"{EXPORTERS}: {bad[0]!r} needs an address: name=http://host:port/metrics,...")
    return {name.strip(): url.strip() for name, _, url in pairs}


def metrics_address(endpoint: Endpoint, drawn: dict[str, Any]) -> str | None:
    """Where the backend serves Prometheus metrics on a port of their own, which its start drew; None if it does not.

    Our own servers answer theirs on the port under test; they are not asked during a load, because their
    spans come with every answer and the question would take its time from the requests.
    """
    port = drawn.get("metrics_port")
    return f"http://{endpoint.host}:{port}/metrics" if port else None
