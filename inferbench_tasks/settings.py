"""Where InferBench keeps its data; each setting is one environment variable."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from pathlib import Path

from inferbench_tasks import private
from inferbench_tasks.errors import InputError, StorageError

DATA_DIR = "INFERBENCH_DATA_DIR"
PERFDB_URI = "INFERBENCH_PERFDB_URI"
#: "allow": the repository's models of formats that are machine code are run; by default they are refused.
REGISTRY_CODE = "INFERBENCH_REGISTRY_CODE"
#: Set for runs whose caches and results are apart (the sides of a night): where what is one per machine stays.
MACHINE_DIR = "INFERBENCH_MACHINE_DIR"
#: In a data directory: its id, see ``home_id``.
HOME_ID = "home.id"
#: Of tests: "1" has data directories of one machine count as hosts, as network namespaces of it are there.
ONE_MACHINE_AS_HOSTS = "INFERBENCH_TEST_ONE_MACHINE_AS_HOSTS"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Folder whose YAML files become DAGs.
SUBMISSIONS_DIR = "INFERBENCH_SUBMISSIONS_DIR"
#: Set by ``inferbench run`` for its child: the invocation's folder, for progress and cancellation.
INVOCATION_DIR = "INFERBENCH_INVOCATION_DIR"
#: From so many percent of the data directory's file system on nothing new starts.
MAX_DISK_PERCENT = "INFERBENCH_MAX_DISK_PERCENT"
_USUAL_MAX_DISK_PERCENT = 95
#: How long, and how much, is kept of each place: "30d, 50GB" (``upkeep.keep``).
KEEP_RUNS, KEEP_CACHE = "INFERBENCH_KEEP_RUNS", "INFERBENCH_KEEP_CACHE"
KEEP_SUBMITTED, KEEP_LOGS = "INFERBENCH_KEEP_SUBMITTED", "INFERBENCH_KEEP_LOGS"
#: Set by a worker for its tasks: the device that it serves, or ``host``.
WORKER = "INFERBENCH_WORKER"
#: Set for what a job of several devices starts: their ids, with commas between them.
DEVICES = "INFERBENCH_DEVICES"
#: The cluster that this machine is of: its trainings are kept with it.
CLUSTER = "INFERBENCH_CLUSTER"
#: "perfdb": how a run goes is told there too, by workers whose data directory the web server does not see.
PROGRESS, IN_PERFDB = "INFERBENCH_PROGRESS", "perfdb"


def data_dir() -> Path:
    """The data directory: ``INFERBENCH_DATA_DIR``, else the user's own under XDG's rules."""
    if folder := os.environ.get(DATA_DIR):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "inferbench"


def machine_dir(data_dir: Path) -> Path:
    """Where the lease of the machine and the records of its servers are: ``data_dir`` unless ``INFERBENCH_MACHINE_DIR``
    is set, so that runs with caches of their own take turns with all others, and are cleaned up with them.
    """
    return Path(os.environ.get(MACHINE_DIR) or data_dir)


def home_id(data_dir: Path) -> str:
    """What tells a data directory from all others, also where two hosts have theirs at the same path.

    Drawn once and kept in its file ``home.id``. StorageError where that can't be written, or is none.
    """
    path = data_dir / HOME_ID
    try:
        if not path.exists():
            data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            drawn = path.with_name(f".{HOME_ID}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
            drawn.write_text(uuid.uuid4().hex)
            try:
                with suppress(FileExistsError):  # another process was first
                    os.link(drawn, path)
            finally:
                drawn.unlink()
        text = path.read_text().strip()
    except OSError as error:
        raise StorageError(f"{path} can't be used: {error.strerror}") from error
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise StorageError(f"{path} is damaged; remove it, and start this host's workers again.")
    return text


def boot_id() -> str:
    """What tells a running kernel from all others, whatever containers and namespaces are on it.

    "" where nobody can tell: data directories are hosts then; and where a test has one machine be several.
    """
    if os.environ.get(ONE_MACHINE_AS_HOSTS) == "1":
        return ""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def servers_dir(data_dir: Path) -> Path:
    """The records of the servers that run on this machine."""
    return machine_dir(data_dir) / "servers"


def writable(path: Path) -> Path:
    """``path``, made if it is missing, and closed to other users; raises StorageError, with the remedy, where it can't
    be written.
    """
    probe = path / f".probe-{os.getpid()}"
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        private.close_data(path)
        try:
            probe.write_bytes(b"\0" * 4096)
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"The data directory {path} can't be written: {error.strerror}. Free or fix it, or set "
            f"{DATA_DIR} (or --data-dir) to a folder of yours."
        ) from error
    return path


def disk_full(data_dir: Path) -> str | None:
    """Why nothing new may start: how full the data directory's file system is, and the remedy; None if it has room.

    InputError where the setting is no percentage. A file system that can't be asked is none that is full.
    """
    text = os.environ.get(MAX_DISK_PERCENT, "") or str(_USUAL_MAX_DISK_PERCENT)
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 100):
        raise InputError(f"{MAX_DISK_PERCENT} is {text[:40]!r}; allowed are whole percents from 1 to 100")
    limit_percent = int(text)
    try:
        disk = os.statvfs(data_dir)
    except OSError:
        return None
    # As df: what is reserved for root is neither used nor free.
    used = disk.f_blocks - disk.f_bfree
    blocks = used + disk.f_bavail
    if limit_percent == 100 or not blocks or 100 * used < limit_percent * blocks:
        return None
    return (
        f"The file system of {data_dir} is {100 * used // blocks}% full, with "
        f"{disk.f_bavail * disk.f_frsize // 2**20:,} MB free; from {limit_percent}% on nothing new starts, so that "
        f"what runs can be stored. Free some (`inferbench clean` removes what is old, and with smaller bounds in "
        f"{KEEP_RUNS} and {KEEP_CACHE} more), set {DATA_DIR} to a larger one, or raise {MAX_DISK_PERCENT}."
    )


def refuse_full(data_dir: Path) -> None:
    """StorageError where the data directory's file system has no room for something new."""
    if reason := disk_full(data_dir):
        raise StorageError(reason)


def perfdb_uri() -> str | None:
    """The PerfDB's URI if one is set; None means the embedded server."""
    return os.environ.get(PERFDB_URI) or None


def registry_code() -> bool:
    """Whether models of the repository that are machine code may be run here."""
    return os.environ.get(REGISTRY_CODE) == "allow"
