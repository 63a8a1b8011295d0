"""What a process in the sandbox may reach, and the parts of the system that every such process reads."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import inferbench_tasks

#: Further folders that every process in the sandbox reads, separated by ``:``; for packages that lie elsewhere.
READS = "INFERBENCH_SANDBOX_READS"
#: Shared memory by name: semaphores of Python's multiprocessing, the regions of Triton's stubs.
SHARED_MEMORY = "/dev/shm"  # noqa: S108
#: Programs and libraries.
PROGRAMS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"),
    *("/run/current-system", "/run/opengl-driver"),
)
#: Of /etc only what libraries ask for, no passwords and no keys.
CONFIGURATION = tuple(
    f"/etc/{name}"
    for name in (
        *(
            "ld.so.cache",
            "ld.so.conf",
            "ld.so.conf.d",
            "ld.so.preload",
            "alternatives",
            "localtime",
            "timezone",
        ),
        *(
            "nsswitch.conf",
            "hosts",
            "resolv.conf",
            "host.conf",
            "gai.conf",
            "services",
            "protocols",
            "networks",
        ),
        *(
            "passwd",
            "group",
            "hostname",
            "os-release",
            "debian_version",
            "lsb-release",
            "mime.types",
            "magic",
        ),
        *("locale.alias", "locale.conf", "inputrc", "fonts", "pip.conf", "uv", "machine-id", "gitconfig"),
        *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "pki/tls/certs"),
        *(
            "pki/ca-trust",
            "crypto-policies",
            "OpenCL",
            "vulkan",
            "nvidia",
            "nvidia-container-runtime",
            "cuda",
        ),
        *("java", "java-8-openjdk", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "python3"),
    )
)
#: What the kernel tells of the machine; of other processes it tells nothing that is theirs (no memory, environment).
KERNEL = (
    *("/proc", "/sys/devices", "/sys/class", "/sys/bus", "/sys/module", "/sys/fs/cgroup", "/sys/block"),
    *("/sys/kernel/mm", "/sys/dev", "/sys/firmware/devicetree"),
)
#: Devices that hold nothing of anybody, and those that compute.
DEVICES = tuple(
    f"/dev/{name}"
    for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "dri", "kfd")
)
ACCELERATORS = "nvidia"
#: Variables that name further programs and libraries.
PLACES = ("PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME", "JAVA_HOME")


@dataclass(frozen=True)
class Reach:
    """Paths and ports of one process, beside the system's own; a path that doesn't exist is left out.

    Below ``folders`` it may make and remove folders, but no files. Of ``binds`` and ``connects`` (TCP ports) None means
    any. ``local_sockets``: Unix sockets by path, also those of others; ``datagrams``: UDP, to anywhere.
    ``interfaces``: asking the kernel for its network interfaces, which gloo does. ``links``: making symbolic links in
    ``writes``; who has more rights than the process and opens a name there would follow them out of the sandbox.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    binds: tuple[int, ...] | None = ()
    connects: tuple[int, ...] | None = ()
    local_sockets: bool = False
    datagrams: bool = False
    interfaces: bool = False
    links: bool = False


def system_reads() -> list[str]:
    """Programs, libraries, the interpreter with its packages, ours among them, and what the kernel tells."""
    package = Path(inferbench_tasks.__file__).parent
    interpreter = [sys.prefix, sys.base_prefix, sys.exec_prefix, *_packages()]
    return [*PROGRAMS, *CONFIGURATION, *KERNEL, *devices(), *interpreter, str(package), *_listed(READS)]


def devices() -> list[str]:
    """The devices that are read and written."""
    named = [entry.path for entry in os.scandir("/dev") if entry.name.startswith(ACCELERATORS)]
    return [*DEVICES, *named]


def _packages() -> list[str]:
    """Folders of packages outside of the interpreter, without those that hold more than packages."""
    closed = {Path.home(), Path("/"), Path.cwd(), Path("/tmp")}  # noqa: S108 - what is not opened
    roots = [os.environ.get(name) for name in ("AIRFLOW_HOME", "INFERBENCH_DATA_DIR")]
    guarded = [*closed, *(Path(root) for root in roots if root)]
    entries = [
        *sys.path,
        site.getusersitepackages(),
        *(folder for name in PLACES for folder in _listed(name)),
    ]
    folders = (Path(entry) for entry in entries if os.path.isabs(entry))
    return [str(folder) for folder in folders if not _opens(folder, guarded)]


def _opens(folder: Path, guarded: Iterable[Path]) -> bool:
    """Whether who reads a folder reads one of these too, or the folder lies in Airflow's or the data's."""
    own = {os.environ.get("AIRFLOW_HOME"), os.environ.get("INFERBENCH_DATA_DIR")} - {None, ""}
    return any(path.is_relative_to(folder) for path in guarded) or any(
        folder.is_relative_to(root) for root in own if root
    )


def _listed(name: str) -> list[str]:
    return [entry for entry in os.environ.get(name, "").split(os.pathsep) if entry]
