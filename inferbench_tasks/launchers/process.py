"""A server as a process of this machine, in a session and a sandbox of its own."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import site
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, ClassVar

from inferbench_tasks import sandbox
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.errors import ServerError
from inferbench_tasks.interrupt import deferred
from inferbench_tasks.launchers import processes, records
from inferbench_tasks.launchers.base import LOOPBACK, Launch, log_end
from inferbench_tasks.monitors import perf_events, perf_samples
from inferbench_tasks.monitors.gpu import BY_BUS, ORDER
from inferbench_tasks.sandbox import limits
from inferbench_tasks.strangers_folder import opened

log = logging.getLogger(__name__)

#: What a server may see of our environment. Everything else, credentials first, stays out.
PASSED_ON = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "JAVA_HOME", "GLIBC_TUNABLES",
    "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)  # fmt: skip
#: In a server's folder.
LOG = "server.log"
#: Servers that this process started and has not reaped: their ends are ours to collect.
_children: dict[int, subprocess.Popen[bytes]] = {}


class ProcessLauncher:
    """Each server leads its own session; it outlives the process that starts it, until it is stopped."""

    kind: ClassVar[str] = "process"
    listens_on = LOOPBACK

    def unavailable(self) -> str | None:
        """Processes are only watched properly on Linux."""
        return None if sys.platform == "linux" else f"needs Linux, this is {sys.platform}"

    def start(self, launch: Launch, servers_dir: Path) -> ServerHandle:
        """Start the command; its output goes to ``server.log``.

        Raises ServerError if it can't be run, or something else stands in its log's place; InputError where a sandbox
        is required that this kernel does not have.
        """
        sandbox.require()
        token = f"{launch.run_id}-{secrets.token_hex(4)}"
        confined = sandbox.setting() != "off"
        uid = _user() if confined else None
        bounds = sandbox.Bounds.of(uid, launch.folder) if confined else None
        record = ServerRecord(
            run_id=launch.run_id, token=token, launcher=self.kind, leftovers=launch.leftovers, uid=uid
        )
        path = records.write(servers_dir, record)
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        env = {ORDER: BY_BUS} | env | (_own_places(launch.folder) if confined else {})
        env |= sandbox.names(uid)
        env |= {**launch.env, processes.MARK: token}
        counters: dict[str, int] = {}
        samples: dict[int, int] = {}

        def count() -> None:
            if launch.counted:
                counters.update(perf_events.opened_if_any(perf_events.PROCESSOR))
            if launch.sampled:
                samples.update(perf_samples.opened_if_any(launch.cores or os.sched_getaffinity(0)))

        # A signal waits until the process is known: it is started in a thread, which goes on when its starter is ended.
        with deferred():
            try:
                for file in launch.makes:
                    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
                with _log_of(launch) as output:

                    def start() -> subprocess.Popen[bytes]:
                        if launch.cores:  # of this thread, which ends once the program is started
                            os.sched_setaffinity(0, launch.cores)
                        return subprocess.Popen(
                            launch.argv,
                            stdin=subprocess.DEVNULL,
                            stdout=output,
                            stderr=subprocess.STDOUT,
                            cwd=launch.cwd or launch.folder,
                            env=env | perf_events.named(counters) | perf_samples.named(samples),
                            pass_fds=(*counters.values(), *samples.values()),
                            start_new_session=True,
                        )

                    reach = _reach(launch, env) if confined else None
                    child = sandbox.started(reach, start, uid, count)
            except (OSError, ServerError) as error:
                for file in launch.makes:
                    Path(file).unlink(missing_ok=True)
                path.unlink()
                if isinstance(error, ServerError):
                    raise
                raise ServerError(
                    f"The server's program {launch.argv[0]} can't be run: {error.strerror}"
                ) from error
            finally:
                perf_events.close(counters)  # the server has its own
                perf_samples.close(samples)
            _children[child.pid] = child
            limits.first_to_go(child.pid)
            if bounds is not None:
                sandbox.bounded(child.pid, uid, bounds)
            server = ServerHandle(
                launcher="process",
                pid=child.pid,
                started_ns=processes.created_ns(child.pid),  # our child: it stays until we reap it
                log_path=str(launch.folder / LOG),
                config_path=str(launch.config_path),
                sandbox=sandbox.state(),
                uid=uid,
            )
            records.write(servers_dir, record.model_copy(update={"server": server}))
        log.info("server started pid=%d log=%s", child.pid, server.log_path)
        return server

    def alive(self, server: ServerHandle) -> bool:
        """Whether the first process of the server still runs."""
        if (child := _children.get(server.pid)) is not None and child.poll() is not None:
            return False
        return processes.is_alive(server.pid, server.started_ns)

    def exit_text(self, server: ServerHandle) -> str:
        """Known while the process that started it lives."""
        child = _children.get(server.pid)
        code = child.poll() if child is not None else None
        if code is None:
            return "ended"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def log_end(self, server: ServerHandle, lines: int = 20) -> str:
        """The log is a file from the start."""
        return log_end(server.log_path, lines)

    def stop(self, record: ServerRecord, grace_s: float = 5.0) -> bool:
        """End all its processes, gently first; ServerError if one of them can't be ended."""
        pid, started_ns = (record.server.pid, record.server.started_ns) if record.server else (0, 0)
        members = processes.members(record.token, pid, started_ns, record.uid)
        survivors = processes.end(members, grace_s)
        # What was started while the others were being ended.
        survivors += processes.end(processes.members(record.token, pid, started_ns, record.uid), 0.0)
        if (child := _children.pop(pid, None)) is not None:
            child.wait(timeout=5)
        if survivors:
            raise ServerError(
                f"Processes of the server can't be ended: {', '.join(str(p.pid) for p in survivors)}"
            )
        return bool(members)


def _log_of(launch: Launch) -> IO[bytes]:
    """Its log, to be written on; what read the model may have written in the run's folder before."""
    path = launch.folder / LOG
    try:
        return opened(path, "ab", within=launch.folder.parent)
    except OSError as error:
        raise ServerError(f"The server's log {path} can't be written: {error.strerror}") from error


def _own_places(folder: Path) -> dict[str, str]:
    """A home and a place for temporary files in the server's folder; the user's packages are where they were."""
    own = folder / "tmp"
    own.mkdir(exist_ok=True)
    return {"HOME": str(own), "TMPDIR": str(own), "PYTHONUSERBASE": site.getuserbase()}


def _user() -> int | None:
    """One of its own; None beside the daemon that shares a GPU, which serves one user."""
    return None if os.environ.get("CUDA_MPS_PIPE_DIRECTORY") else sandbox.draw()


def _reach(launch: Launch, env: dict[str, str]) -> sandbox.Reach:
    """What the server asked for, its program, its model and its folder; the daemon that shares a GPU, if any."""
    program = shutil.which(launch.argv[0], path=env.get("PATH")) or launch.argv[0]
    reads = (
        *launch.reach.reads,
        *launch.mounts,
        os.path.realpath(program),
        *env.get("LD_LIBRARY_PATH", "").split(":"),
    )
    writes = (*launch.reach.writes, str(launch.folder))
    if daemon := env.get("CUDA_MPS_PIPE_DIRECTORY"):
        writes = (*writes, daemon, *filter(None, [env.get("CUDA_MPS_LOG_DIRECTORY")]))
    local_sockets = launch.reach.local_sockets or bool(daemon)
    return replace(launch.reach, reads=reads, writes=writes, local_sockets=local_sockets)
