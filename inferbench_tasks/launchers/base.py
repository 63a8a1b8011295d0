"""How a server is started, watched and ended; what is started is a backend's business."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.registry import Registry
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.strangers_folder import end_of

ANY_PORT = Reach(binds=None, local_sockets=True, datagrams=True)

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Launch:
    """A server about to be started.

    ``folder`` takes the log and everything that the server writes. ``argv`` is a process's command, or
    the arguments of ``image``'s entry point. ``env`` is added to a small, known environment. ``mounts``
    (host path -> path in the container) are read-only. ``port_in_use`` is what the log says when a
    chosen port was taken in the meantime: then the start is tried again with others. ``reach``: what a process may
    use of its machine besides ``folder``, the hosts' paths of ``mounts``, and the system's programs and libraries.
    ``counted``: whether a process gets the processor's counters of itself (``monitors.perf_events``), where there are
    any. ``sampled``: whether it is sampled (``monitors.perf_samples``), where the kernel lets it.
    """

    run_id: str
    folder: Path
    config_path: Path
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    port_in_use: str | None = None
    #: Patterns of files outside of ``folder`` that a server killed by force leaves (shared memory).
    leftovers: tuple[str, ...] = ()
    #: Files that are made empty before the start, for this user alone; they are among ``leftovers``.
    makes: tuple[str, ...] = ()
    image: str | None = None
    #: Whether the submission names the image, which then must be on the operator's list.
    image_by_submission: bool = False
    mounts: dict[str, str] = field(default_factory=dict)
    cpus: float | None = None
    memory_bytes: int | None = None
    #: Of a server that names no ports any; it connects nowhere.
    reach: Reach = ANY_PORT
    counted: bool = False
    sampled: bool = False
    #: The cores that a process may run on, from its first instruction; empty: those of who starts it.
    cores: tuple[int, ...] = ()


class Launcher(Protocol):
    """One way to run a server."""

    kind: ClassVar[str]

    @property
    def listens_on(self) -> str:
        """The address that servers bind: loopback, where they share this machine's network."""
        return LOOPBACK

    def unavailable(self) -> str | None:
        """Why servers can't be run this way here; None if they can."""
        ...

    def start(self, launch: Launch, servers_dir: Path) -> ServerHandle:
        """Start it, registered under ``servers_dir`` before it can be lost. Raises ServerError."""
        ...

    def alive(self, server: ServerHandle) -> bool:
        """Whether the server that was started still runs; a recycled pid does not count."""
        ...

    def exit_text(self, server: ServerHandle) -> str:
        """How a dead server ended ("exit code 3", "killed by SIGKILL"), as far as is known."""
        ...

    def log_end(self, server: ServerHandle, lines: int = 20) -> str:
        """The last lines of its log, indented; ``server.log_path`` holds all of it once it has ended."""
        ...

    def stop(self, record: ServerRecord, grace_s: float = 5.0) -> bool:
        """End it with everything it started; False if nothing of it was left. The caller drops the record."""
        ...


LAUNCHERS: Registry[type[Launcher]] = Registry(
    "launcher",
    "inferbench.launchers",
    {
        "process": "inferbench_tasks.launchers.process:ProcessLauncher",
        "container": "inferbench_tasks.launchers.container:ContainerLauncher",
    },
)


def log_end(path: str | Path, lines: int = 20) -> str:
    """The last lines of a server's log, indented; says so when there are none. The server may write in its folder."""
    place = Path(path)
    try:
        text = end_of(place, within=place.parent.parent)
    except OSError as error:
        return f"  (the log can't be read: {error.strerror})"
    end = [line for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(f"  {line[:500]}" for line in end) or "  (the log is empty)"
