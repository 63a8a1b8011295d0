"""A device's worker: it registers the device, answers for its health, and keeps a Celery worker on its queue.

The agent lives beside the tasks: whatever a task or the Celery worker does, the device's heartbeat goes on, and
when the agent dies its Celery worker dies with it. A grant is answered only after the device was checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil

from inferbench_tasks import settings
from inferbench_tasks.artifacts.no_room import why_no_room
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.errors import InferBenchError, PerfDBAwayError
from inferbench_tasks.launchers import records
from inferbench_tasks.monitors.gpu import BY_BUS, ORDER
from inferbench_tasks.workers.checks import Check
from inferbench_tasks.workers.host_report import HostReport
from inferbench_tasks.workers.leftovers import Leftovers, members

log = logging.getLogger(__name__)

POLL_S, BEAT_S = 0.2, 1.0
#: A device is busy for a moment when a job has just ended: it is asked again for so long before it is quarantined.
SETTLE_S = 5.0
#: A Celery worker that died is started again after so long, twice as long each time it dies soon.
RESTART_S, LONGEST_RESTART_S = 1.0, 30.0
#: What is said of a device whose worker ends with its job.
STOPPING = "its worker is being stopped"
_PR_SET_PDEATHSIG = 1


class Agent:
    """Serves one device until it is told to stop. ``report``: what it tells of its host."""

    def __init__(
        self,
        device: Device,
        cluster: Cluster,
        command: list[str],
        data_dir: Path,
        report: HostReport | None = None,
    ) -> None:
        self.device = device
        self.cluster = cluster
        self.command = command
        self.data_dir = data_dir
        self.report = report
        self.check = Check(device, data_dir)
        self.fault = ""
        self._entered = self._stop = self._drain = self._drained = False
        self._child: subprocess.Popen[bytes] | None = None
        self._started_s = self._restart_s = self._restart_at = self._beat_at = 0.0
        self._faulty_since: float | None = None
        self._lease: int | None = None
        self._leftovers = Leftovers()

    def run(self) -> None:
        """Returns when everything that it started has ended: after SIGTERM or SIGINT with the job that it has, after
        a second one at once. A PerfDB that is away is waited for; one that refuses it at its start is an error.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stopped)
        try:
            while not self._stop and not self._drained:
                try:
                    if not self._entered:
                        self._enter()
                    self._keep_child()
                    self._serve()
                    if self.report is not None:
                        self.report.tell(idle=self._lease is None)
                except InferBenchError as error:
                    if not self._entered and not isinstance(error, PerfDBAwayError):
                        raise
                    log.warning("the device is not served for now: %s", error)
                    # Whoever grants the device meanwhile gets no answer, and takes another.
                    self._drained = self._drain and self._lease is None
                time.sleep(POLL_S)
        finally:
            self._end_child()
            try:
                self.cluster.stop(self.device.device_id)
            except InferBenchError as error:
                log.warning(
                    "PerfDB is away: the device's heartbeat says that its worker has ended: %s", error
                )

    def _enter(self) -> None:
        """Before anything is started here, and any lease is answered."""
        self.cluster.register(self.device)
        if self.report is not None:
            self.report.enter()
        # First, so that a job on several devices is known to be lost before what it has here is ended: else the stage
        # on another device would take its own processes' end for a failure of the job.
        self._lose_lease("its worker was started again")
        self._sweep()
        self._entered = True

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        # No logging here: the signal may have come within a line of the log.
        self._stop, self._drain = self._drain, True
        if self._stop or self._lease is None:
            self.cluster.db.hurry()

    def _serve(self) -> None:
        record = self.cluster.get(self.device.device_id)
        if record is None:
            self.cluster.register(self.device)
            return
        now = time.monotonic()
        token = record.lease.token if record.lease else None
        if self._lease is not None and token != self._lease:
            self._sweep()  # usually nothing: its release has ended the server
            self._leftovers.expect()
        self._lease = token
        if self._drain:
            self._leave(record)
        elif record.lease is None or record.lease.state == "granted":
            self._look(now, record.accused)
        if record.lease is not None and record.lease.state == "granted":
            if self._child_ready() and not self.fault and self._faulty_since is None and not self._drain:
                self.cluster.answer(self.device.device_id, record.lease.token, "confirmed")
            elif self.fault:
                self.cluster.answer(self.device.device_id, record.lease.token, "refused", self.fault)
        if now >= self._beat_at:
            self._beat_at = now + BEAT_S
            left = max(0.0, record.expected_left_s or 0.0)
            health = "quarantined" if self.fault else "ok"
            self.cluster.beat(self.device.device_id, health=health, reason=self.fault, queue_s=left)

    def _look(self, now: float, accused: str = "") -> None:
        """A fault counts once it has lasted; a device without one is fit at once. ``accused``: by others, see there."""
        of_clock = self.report.clock_fault if self.report else ""
        fault = accused or of_clock or self._left() or self.check() or self._no_room()
        if not fault:
            if self.fault:
                log.info("fit again device=%s", self.device.device_id)
            self.fault, self._faulty_since = "", None
        elif self._faulty_since is None:
            self._faulty_since = now
        elif now - self._faulty_since >= SETTLE_S and not self.fault:
            self.fault = fault
            log.warning("quarantined device=%s reason=%s", self.device.device_id, fault)

    def _no_room(self) -> str:
        """What had no room here lately, where jobs may go to another host instead: a device of this kind is fit there.
        Without one they would only wait for the same.
        """
        why = why_no_room(self.data_dir)
        mine = self.device
        elsewhere = why and any(
            (other.home, other.host) != (mine.home, mine.host)
            and other.device_type == mine.device_type
            and other.health == "ok"
            and other.present(TTL_S)
            for other in self.cluster.devices()
        )
        return why if elsewhere else ""

    def _left(self) -> str:
        return self._leftovers.at_work(self._child.pid if self._child is not None else None)

    def _leave(self, record: Device) -> None:
        """Take no further job, and be done once there is none: nobody is granted a device that PerfDB has as unfit."""
        if self.fault != STOPPING:
            busy = f"once {record.lease.job} has ended" if record.lease else "now"
            log.info("stopping %s device=%s; a second signal ends it at once", busy, self.device.device_id)
            self.fault, self._beat_at = STOPPING, 0.0
        elif record.lease is None and record.health != "ok":
            self._drained = True

    def _lose_lease(self, reason: str) -> None:
        """A job that was on the device has lost its server and its task."""
        record = self.cluster.get(self.device.device_id)
        if record is not None and record.lease is not None:
            self.cluster.lose(self.device.device_id, record.lease.token, f"{self.device.device_id}: {reason}")

    # -- the Celery worker --------------------------------------------------------------------------

    def _child_ready(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _keep_child(self) -> None:
        now = time.monotonic()
        if self._child is not None:
            if self._child.poll() is None:
                return
            log.warning("the Celery worker ended with %s", self._child.returncode)
            self._lose_lease("its Celery worker ended")
            self._end_child()
            soon = now - self._started_s < 60
            self._restart_s = min(LONGEST_RESTART_S, 2 * self._restart_s if soon else RESTART_S)
            self._restart_at = now + self._restart_s
            return
        if now < self._restart_at:
            return
        self._restart_s = self._restart_s or RESTART_S
        self._started_s = now
        self._child = subprocess.Popen(  # the agent has one thread: preexec_fn is safe
            self.command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=self._in_child(),  # noqa: PLW1509
            env=os.environ
            | {settings.WORKER: self.device.device_id, settings.DATA_DIR: str(self.data_dir)}
            | gpu_environment(self.device),
        )  # fmt: skip

    def _in_child(self) -> Callable[[], None]:
        prctl, cores = ctypes.CDLL(None).prctl, self.device.cores

        def prepare() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.sched_setaffinity(0, cores)

        return prepare

    def _end_child(self) -> None:
        """The Celery worker with everything of its session and below it, then the servers of its device."""
        child, self._child = self._child, None
        if child is None:
            return
        members_before = members(child.pid)
        if child.poll() is None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=10)
        for process in {p.pid: p for p in [*members_before, *members(child.pid)]}.values():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        child.wait()
        self._sweep()

    def _sweep(self) -> None:
        """End the servers and tasks of this device that nobody answers for: all but the Celery worker that lives."""
        worker = {settings.WORKER: self.device.device_id}
        # The sides of a night have data directories of their own below ours.
        folders = [{name: str(self.data_dir)} for name in (settings.DATA_DIR, settings.MACHINE_DIR)]
        mine = [worker | folder for folder in folders]
        spared = {os.getpid()}
        if self._child is not None:
            spared |= {self._child.pid, *(p.pid for p in members(self._child.pid))}
        for process in psutil.process_iter():
            try:
                if process.pid in spared:
                    continue
                environment = process.environ()
                shared = self.device.device_id in environment.get(settings.DEVICES, "").split(",")
                if any(_has(environment, v) for v in (folders if shared else mine)):
                    log.warning("ending a leftover pid=%s name=%s", process.pid, process.name())
                    process.kill()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        for run_id in records.end_worker(settings.servers_dir(self.data_dir), self.device.device_id):
            log.warning("ended the server of run %s", run_id)


def _has(environment: dict[str, str], variables: dict[str, str]) -> bool:
    return all(environment.get(name) == value for name, value in variables.items())


def gpu_environment(device: Device) -> dict[str, str]:
    """What lets CUDA see just this device: by its UUID, for CUDA and NVML may count devices differently."""
    uuid = device.capabilities.get("uuid")
    visible = uuid or ("" if device.gpu_index is None else str(device.gpu_index))
    return {"CUDA_VISIBLE_DEVICES": visible, ORDER: BY_BUS}


def celery_command(queue: str, name: str, concurrency: int) -> list[str]:
    """The command line of ``airflow celery worker`` for one queue."""
    return [
        sys.executable, "-m", "inferbench_tasks.provider.airflow_command", "celery", "worker",
        "--queues", queue, "--concurrency", str(concurrency),
        "--celery-hostname", f"{name}@%h", "--skip-serve-logs", "--without-mingle", "--without-gossip",
    ]  # fmt: skip
