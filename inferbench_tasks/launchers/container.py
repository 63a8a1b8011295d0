"""A server as a container of this machine's Docker engine: without privileges, read-only, with limits."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import psutil

from inferbench_tasks import extras
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.errors import InferBenchError, ServerError
from inferbench_tasks.interrupt import deferred
from inferbench_tasks.launchers import container_network, images, processes, records
from inferbench_tasks.launchers.base import LOOPBACK, Launch, log_end
from inferbench_tasks.strangers_folder import opened

log = logging.getLogger(__name__)

#: Every container of ours carries its token in this label.
LABEL = "inferbench.server"
DEFAULT_HOST = "unix:///var/run/docker.sock"
PIDS_LIMIT = 4096
#: Of what a server says the engine keeps the newest, in files of this size; so do we.
LOG_BYTES = 16 * 2**20
LOG_CONFIG = {"max-size": str(LOG_BYTES), "max-file": "2"}
TMPFS_BYTES = 256 * 2**20
SHM_BYTES = 256 * 2**20
API_TIMEOUT_S = 30


class ContainerLauncher:
    """Each in a network of its own (``container_network``), from an image that may run (``images``).

    The container runs as the calling user with all capabilities dropped; only its run's folder can be
    written, and a small ``/tmp`` in memory.
    """

    kind: ClassVar[str] = "container"

    @property
    def listens_on(self) -> str:
        """In a network of its own all addresses are the container's."""
        return "0.0.0.0" if container_network.kind() == "own" else LOOPBACK  # noqa: S104

    def unavailable(self) -> str | None:
        """Whether the SDK is there and an engine answers."""
        if extras.missing("containers") and not extras.installable():
            return "the optional part 'containers' is missing: pip install 'inferbench[containers]'"
        address = os.environ.get("DOCKER_HOST", DEFAULT_HOST)
        if address.startswith("unix://") and not Path(address.removeprefix("unix://")).is_socket():
            return f"no Docker engine listens at {address}; start one, or set DOCKER_HOST"
        if extras.missing("containers"):
            return None  # installed on first use
        import docker

        try:
            with _engine() as engine:
                engine.ping()
        except docker.errors.DockerException as error:
            return f"no Docker engine answers ({type(error).__name__}); start one, or set DOCKER_HOST"
        return None

    def start(self, launch: Launch, servers_dir: Path) -> ServerHandle:
        """Run the image. Raises ServerError where it is missing or can't be started."""
        import docker

        if launch.image is None:
            raise ServerError("This backend has no container image; use serve.launcher: process")
        # Outside of what signals wait for: pulling an image takes minutes, and leaves nothing to clean up.
        image = self._image(launch, servers_dir.parent)
        token = f"{launch.run_id}-{secrets.token_hex(4)}"
        record = ServerRecord(
            run_id=launch.run_id, token=token, launcher=self.kind, leftovers=launch.leftovers
        )
        path = records.write(servers_dir, record)
        folders = {str(launch.folder): {"bind": str(launch.folder), "mode": "rw"}}
        folders |= {host: {"bind": inside, "mode": "ro"} for host, inside in launch.mounts.items()}
        options: dict[str, Any] = {
            "command": list(launch.argv),
            "detach": True,
            "environment": {**_tunables(), **launch.env, processes.MARK: token, "HOME": "/tmp"},  # noqa: S108 - inside
            "labels": {LABEL: token},
            "network_mode": "host",
            "log_config": {"type": "json-file", "config": LOG_CONFIG},
            "user": f"{os.getuid()}:{os.getgid()}",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "read_only": True,
            "tmpfs": {"/tmp": f"size={TMPFS_BYTES}"},  # noqa: S108
            "shm_size": SHM_BYTES,
            "pids_limit": PIDS_LIMIT,
            "volumes": folders,
            "working_dir": str(launch.folder),
            "init": False,
        }
        if launch.cpus is not None:
            options["nano_cpus"] = int(launch.cpus * 1e9)
        if launch.memory_bytes is not None:
            options["mem_limit"] = options["memswap_limit"] = launch.memory_bytes
        # A signal waits until the container is known: the engine makes it although nobody waits for its answer.
        with deferred():
            try:
                container, address = self._run(image, options, token)
            except docker.errors.APIError as error:
                self._remove(token, None)
                path.unlink()
                raise _cant_start(launch, error) from error
            except InferBenchError:
                self._remove(token, None)
                path.unlink()
                raise
            server = ServerHandle(
                launcher="container",
                pid=0,
                started_ns=0,
                log_path=str(launch.folder / "server.log"),
                config_path=str(launch.config_path),
                container_id=container.id,
                sandbox="container",
                address=address,
                image_id=str(container.attrs["Image"]),
            )
            pid = int(container.attrs["State"]["Pid"])
            # If it has ended already, whoever waits for it is told by ``alive``.
            with contextlib.suppress(psutil.NoSuchProcess):
                server = server.model_copy(update={"pid": pid, "started_ns": processes.created_ns(pid)})
            records.write(servers_dir, record.model_copy(update={"server": server}))
        log.info("container started id=%s image=%s pid=%d", container.short_id, launch.image, pid)
        return server

    def _image(self, launch: Launch, machine_dir: Path) -> str:
        """The id of its image, which is on this machine by then. Raises what ``images.resolve`` raises."""
        import docker

        try:
            with _engine() as engine:
                by_submission = launch.image_by_submission
                return images.resolve(engine, str(launch.image), machine_dir, by_submission=by_submission)
        except docker.errors.APIError as error:
            raise _cant_start(launch, error) from error

    def _run(self, image: str, options: dict[str, Any], token: str) -> tuple[Any, str]:
        """The container as it is once it was started, and its address. Raises docker's errors and ours."""
        with _engine() as engine:
            address = LOOPBACK
            if own := container_network.kind() == "own":
                container_network.create(engine, token, {LABEL: token})
                options = {**options, "network_mode": token}
            container = engine.containers.create(image, **options)
            container.start()
            container.reload()
            return container, container_network.address(container, token) if own else address

    def alive(self, server: ServerHandle) -> bool:
        """Whether its first process, which the host sees, runs."""
        return server.pid > 0 and processes.is_alive(server.pid, server.started_ns)

    def exit_text(self, server: ServerHandle) -> str:
        """The engine knows the exit code, and whether memory ran out."""
        with _engine() as engine:
            container = _find(engine, server)
        if container is None:
            return "ended"
        state = container.attrs["State"]
        if state.get("OOMKilled"):
            return "was killed: it used more memory than it was given"
        return f"ended with exit code {state.get('ExitCode')}"

    def log_end(self, server: ServerHandle, lines: int = 20) -> str:
        """The last lines of what it said."""
        self._save_log(server)
        return log_end(server.log_path, lines)

    def stop(self, record: ServerRecord, grace_s: float = 5.0) -> bool:
        """Stop the container, keep its log, and remove it."""
        if record.server is not None:
            self._save_log(record.server)
        return self._remove(record.token, record.server, grace_s)

    def _remove(self, token: str, server: ServerHandle | None, grace_s: float = 0.0) -> bool:
        import docker

        running = False
        with _engine() as engine:
            for container in engine.containers.list(all=True, filters={"label": f"{LABEL}={token}"}):
                try:
                    running = running or container.status == "running"
                    container.stop(timeout=max(1, round(grace_s)))
                    if server is not None:
                        self._save_log(server)
                    container.remove(force=True)
                except docker.errors.NotFound:
                    continue  # removed meanwhile
                except docker.errors.APIError as error:
                    raise ServerError(
                        f"The container {container.short_id} can't be ended: {error}"
                    ) from error
            container_network.remove(engine, f"{LABEL}={token}")
        return running

    def _save_log(self, server: ServerHandle) -> None:
        with _engine() as engine:
            container = _find(engine, server)
            if container is not None:
                write_log(Path(server.log_path), newest(container.logs(stream=True, follow=False), LOG_BYTES))


def write_log(path: Path, content: bytes) -> None:
    """Keep what a container said. Its folder is the container's, which may put a link there: then nothing is kept, and
    whoever reads the log is told why.
    """
    try:
        with opened(path, "wb", within=path.parent.parent) as file:
            file.write(content)
    except OSError as error:
        log.warning("a container's log can't be kept path=%s: %s", path, error.strerror)


def _tunables() -> dict[str, str]:
    """How memory is laid out decides on times: for a container as for a process."""
    return {name: os.environ[name] for name in ("GLIBC_TUNABLES",) if name in os.environ}


def _cant_start(launch: Launch, error: Any) -> ServerError:
    """``error``: docker's."""
    return ServerError(f"The container of {launch.image} can't be started: {error.explanation or error}")


@contextlib.contextmanager
def _engine() -> Iterator[Any]:
    """The engine, for some calls. Not kept open: a worker starts many servers, and each client holds sockets."""
    extras.require("containers")
    import docker

    client = docker.from_env(timeout=API_TIMEOUT_S)
    try:
        yield client
    finally:
        client.close()


def _find(engine: Any, server: ServerHandle) -> Any:
    import docker

    try:
        return engine.containers.get(server.container_id)
    except docker.errors.NotFound:
        return None


def newest(chunks: Iterable[bytes], limit: int) -> bytes:
    """The last ``limit`` bytes of a stream, which is never in memory as a whole."""
    kept: deque[bytes] = deque()
    size = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= limit:
            size -= len(kept.popleft())
    return b"".join(kept)[-limit:]
