"""Stages of a job on several hosts of a test: this machine and network namespaces, each with its own data directory.

They are one machine with one boot id, which is no two hosts: that they count as such is ``ONE_MACHINE_AS_HOSTS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from inferbench_tasks import settings
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.launchers.processes import MARK
from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.networks.reached_address import ADDRESS
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.scheduling.eventlog import to_json
from inferbench_tasks.scheduling.model import QueuedJob
from tests.away_hosts import RUN, relayed
from tests.namespaces import HostNamespace, host_namespace, wire

ROOT = Path(__file__).parents[1]


class Hosts:
    """``there``: the host of the namespace, whose CLOCK_MONOTONIC is 1,000 s ahead; ``here``: this machine."""

    def __init__(
        self, far: HostNamespace, uri: str, port: int, folder: Path, db: PerfDB, there: str, here: str
    ) -> None:
        self.far, self.folder, self.db, self.there = far, folder, db, there
        self.fars: dict[str, HostNamespace] = {}
        self.uris: dict[str, str] = {}
        self.homes: dict[str, Path] = {}
        self.outputs: dict[str, Any] = {}
        self.add(here, uri)
        self.add(there, uri, far, port)

    def add(self, name: str, uri: str, far: HostNamespace | None = None, port: int = 0) -> None:
        """A host with a data directory and a device; in a namespace PerfDB is behind that port of this machine."""
        if far is not None:
            parts = urlsplit(uri)
            login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
            uri = f"mongodb://{login}{far.near}:{port}{parts.path}?{parts.query}&directConnection=true"
            self.fars[name] = far
        self.uris[name], self.homes[name] = uri, self.folder / name
        self.homes[name].mkdir(exist_ok=True)
        device = {"device_id": f"{name}.cpu", "device_type": "cpu", "name": "c", "host": name}
        home = settings.home_id(self.homes[name])
        Cluster(self.db).register(Device.model_validate({**device, "home": home}))

    def job(self, name: str) -> str:
        return f"{name}|{RUN}|000"

    def lease(self, name: str, *devices: str) -> None:
        first, *others = devices
        job = QueuedJob(
            self.job(name), "t", name, time.time(), 60.0, 3600.0, frozenset({"cpu"}),
            elsewhere=frozenset({"cpu"} if others else ()), n_elsewhere=max(1, len(others)),
        )  # fmt: skip
        lease = Cluster(self.db).grant(
            first, job.job_id, spec=to_json(job), run_id="", now_s=0, est_end_s=9, others=others
        )
        assert lease is not None
        self.token, self.held = lease.token, devices

    def release(self) -> None:
        assert Cluster(self.db).release(self.held[0], self.token, "ended", self.held[1:])

    def run(self, host: str, name: str, yaml: str, *stages: str) -> dict[str, Any]:
        """These stages of the submission on that host; the outputs of all so far."""
        begun = Begun(self, host, name, yaml, *stages)
        error = begun.error()
        assert error is None, error
        self.outputs = begun.outputs
        return self.outputs


class Begun:
    """These stages of the submission, which run on that host."""

    def __init__(self, hosts: Hosts, host: str, name: str, yaml: str, *stages: str) -> None:
        order = hosts.folder / f"{name}-{'-'.join(stages)}.json"
        far = hosts.fars.get(host)
        environment = {
            settings.DATA_DIR: str(hosts.homes[host]), settings.PERFDB_URI: hosts.uris[host],
            ADDRESS: far.address if far else hosts.far.near, settings.WORKER: f"{host}.cpu",
            MODE: os.environ.get(MODE, ""),
            "PYTHONPATH": str(ROOT), settings.ONE_MACHINE_AS_HOSTS: "1",
        }  # fmt: skip
        order.write_text(
            json.dumps(
                {
                    "home": str(hosts.homes[host]), "yaml": yaml, "outputs": hosts.outputs, "stages": stages,
                    "device": f"{host}.cpu", "job": hosts.job(name), "environment": environment,
                }
            )
        )  # fmt: skip
        words = ["-m", "tests.away_hosts", str(order)]
        command = far.python(*words) if far else [sys.executable, *words]
        self._answer = order.with_suffix(".answer")
        self._answer.unlink(missing_ok=True)
        self._log = order.with_suffix(".log")
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        self.outputs: dict[str, Any] = {}

    def error(self, timeout_s: float = 500.0) -> str | None:
        """How it failed, once it has ended; None where it did not."""
        try:
            self.process.wait(timeout_s)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        log = self._log.read_text(errors="replace")
        if not self._answer.exists():
            return f"it was ended: {log[-3000:]}"
        said = json.loads(self._answer.read_text())
        self.outputs = said["outputs"]
        return f"{said['error']}\n{log[-3000:]}" if "error" in said else None


@contextmanager
def hosts_apart(
    db: PerfDB,
    uri: str,
    folder: Path,
    *,
    there: str,
    here: str,
    beside: Sequence[str] = (),
    delay_ms: float = 0.0,
) -> Iterator[Hosts]:
    """``here``: this machine. The others are namespaces, each behind a wire of 100 Mbit/s that takes ``delay_ms`` each
    way; those ``beside`` reach ``there`` by wires of their own.
    """
    port = urlsplit(uri).port
    assert port is not None
    with ExitStack() as stack:
        fars = [stack.enter_context(host_namespace(100, delay_ms)) for _ in (there, *beside)]
        for number, far in enumerate(fars[1:]):
            wire(fars[0], far, number)
        first, *others = [stack.enter_context(relayed(far.near, port)) for far in fars]
        hosts = Hosts(fars[0], uri, first, folder, db, there=there, here=here)
        for name, far, through in zip(beside, fars[1:], others, strict=True):
            hosts.add(name, uri, far, through)
        yield hosts


def result_of(hosts: Hosts) -> Any:
    """What the last ``collect`` of a serving job stored."""
    (result,) = hosts.db.find_results({"run_id": hosts.outputs["job-000.collect"]["run_id"]})
    return result


def left_of(run_id: str) -> list[Mapping[str, Any]]:
    """The processes that were started for a run and still live."""
    return [
        p.info for p in psutil.process_iter(["pid", "cmdline", "environ", "status"])
        if (p.info["environ"] or {}).get(MARK, "").startswith(run_id) and p.info["status"] != psutil.STATUS_ZOMBIE
    ]  # fmt: skip
