"""Python environments of their own, for backends whose requirements don't go with ours.

Made on first use with a word about what is being installed, and kept in the cache: whole or not at all,
by one process at a time. What is installed is in ``locks`` (``make hashes`` makes them), every file with its SHA-256.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from inferbench_tasks.errors import ServerError, StorageError

log = logging.getLogger(__name__)

#: Written last: an environment without it was cut off in the making.
COMPLETE = "complete"
#: In an environment: the lock that it was made of, where no file of ours has it.
PINNED = "lock.txt"
#: Nothing is built here: the building of a package runs what is in it.
_WHEELS_ALONE = ("--no-deps", "--only-binary", ":all:")
INSTALL_TIMEOUT_S = 1800
#: Below ``cache`` of a data directory: where they are made.
ENVIRONMENTS = "envs"
LOCKS = Path(__file__).with_name("locks")
#: PyTorch's build for CPUs, with its hash (that of ``constraints.torch.txt``). PyPI does not have it: whoever
#: installs it tells pip where it is (``PIP_EXTRA_INDEX_URL``, ``PIP_FIND_LINKS``, pip's configuration).
CPU_TORCH = LOCKS / "torch_cpu.txt"
#: 0: an environment is made of what the index has for its requirements, whatever the hashes.
REQUIRE_HASHES = "INFERBENCH_REQUIRE_HASHES"


@dataclass(frozen=True)
class Environment:
    """``requirements`` come with what they need, ``bare`` without; ``megabytes`` as measured on disk.

    ``lock``: a file with all that is installed for them, exact versions with hashes; without one, what the index has
    is installed. ``left_out``: what its requirements ask for and must not be there; without hashes, too, just the
    lock's versions are installed then. ``cpu_torch``: PyTorch for CPUs, before the others. ``finish(folder)`` puts in
    place what no package brings, or refuses what was installed. ``pinned``: the lines of such a lock, in place of a
    file: just these are installed, wheels only.
    """

    name: str
    requirements: tuple[str, ...]
    megabytes: int
    bare: tuple[str, ...] = ()
    finish: Callable[[Path], None] | None = None
    lock: Path | None = None
    left_out: tuple[str, ...] = ()
    cpu_torch: bool = False
    pinned: tuple[str, ...] = ()

    @property
    def lock_sha256(self) -> str | None:
        """Of all that its lock says; None where there is none, or what is installed is not compared with it."""
        if not self.hashes_compared:
            return None
        text = self.lock.read_bytes() if self.lock else "\n".join(self.pinned).encode()
        return hashlib.sha256(text).hexdigest()

    def is_made(self, cache_dir: Path) -> bool:
        """Whether it is there already."""
        return (cache_dir / self.folder_name / COMPLETE).is_file()

    @property
    def folder_name(self) -> str:
        """Another requirement or another Python is another environment."""
        parts = (sys.version, *self.requirements, "bare", *self.bare, *self._locked())
        return f"{self.name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"

    @property
    def hashes_compared(self) -> bool:
        """Whether what is installed is compared with the lock."""
        return bool(self._locked())

    def ensure(self, cache_dir: Path) -> Path:
        """The environment's folder, made if it is not there yet. Raises ServerError, StorageError."""
        folder = cache_dir / self.folder_name
        if not (folder / COMPLETE).is_file():
            with FileLock(str(folder) + ".lock"):
                if not (folder / COMPLETE).is_file():
                    self._make(folder)
        with suppress(OSError):  # when it was used last, for who cleans up; another's can't be touched
            os.utime(folder / COMPLETE)
        return folder

    def _make(self, folder: Path) -> None:
        if os.environ.get("INFERBENCH_NO_INSTALL"):
            raise ServerError(
                f"{self.name} is not installed here, and INFERBENCH_NO_INSTALL forbids to install it."
            )
        message = f"Installing {self.name} (about {self.megabytes} MB, once) into {folder} ..."
        log.info(message)
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
        try:
            if folder.exists():
                shutil.rmtree(folder)
            free = shutil.disk_usage(folder.parent).free
            if free < self.megabytes * 2**20 * 1.5:
                raise StorageError(
                    f"No space for {self.name}: {self.megabytes} MB are needed in {folder.parent}, "
                    f"{free >> 20} MB are free."
                )
            _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], self.name)
            install = [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--python",
                str(python(folder)),
            ]
            install += ["install", "--quiet", "--no-input"]
            if self.pinned:
                (folder / PINNED).write_text("\n".join(self.pinned) + "\n")
            for arguments in self._installs(folder):
                _run([*install, *arguments], self.name)
            if self.finish is not None:
                self.finish(folder)
            (folder / COMPLETE).touch()
        except OSError as error:
            raise StorageError(f"{self.name} can't be installed into {folder}: {error.strerror}") from error

    def _locked(self) -> list[str]:
        """The words of the lock; none where hashes are not compared."""
        if os.environ.get(REQUIRE_HASHES) == "0":
            return []
        if self.lock is None:
            return " ".join(self.pinned).split()
        return (self.lock.read_text() + (CPU_TORCH.read_text() if self.cpu_torch else "")).split()

    def _installs(self, folder: Path) -> list[list[str]]:
        """The arguments of each call of the installer, for that environment."""
        if not (words := self._locked()):
            if self.lock is not None or self.pinned:
                log.warning(
                    "%s=0: what %s is made of is not compared with its hashes", REQUIRE_HASHES, self.name
                )
            if self.pinned:
                return [[*_WHEELS_ALONE, *(line.split()[0] for line in self.pinned)]]
            if self.lock is not None and self.left_out:
                return [*self._torch(), ["--no-deps", *pins(self.lock)]]
            bare = [*self._torch(), *([["--no-deps", *self.bare]] if self.bare else [])]
            return [*bare, [*self.requirements]] if self.requirements else bare
        exact = [text for text in (*self.bare, *self.requirements) if "==" in text]
        if foreign := [pin for pin in exact if pin not in words]:
            raise ServerError(
                f"The lock of {self.name} has no hashes of {', '.join(foreign)}: InferBench's own environment has "
                f"other versions than constraints.txt. {REQUIRE_HASHES}=0 installs without comparing hashes."
            )
        if self.pinned:
            return [[*_WHEELS_ALONE, "--require-hashes", "--requirement", str(folder / PINNED)]]
        return [*self._torch(), ["--no-deps", "--require-hashes", "--requirement", str(self.lock)]]

    def _torch(self) -> list[list[str]]:
        if not self.cpu_torch:
            return []
        what = ["--require-hashes", "--requirement", str(CPU_TORCH)] if self._locked() else pins(CPU_TORCH)
        return [["--no-deps", *what]]


def pins(lock: Path) -> list[str]:
    """What a lock's lines name, without hashes."""
    return [word for word in lock.read_text().split() if "==" in word]


def python(folder: Path) -> Path:
    """The path of an environment's Python interpreter."""
    return folder / "bin" / "python"


def site_packages(folder: Path) -> Path:
    """The folder of an environment's packages."""
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def _run(command: list[str], name: str) -> None:
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"Installing {name} took longer than {INSTALL_TIMEOUT_S} s; was stopped."
        ) from error
    if process.returncode:
        end = "\n".join((process.stderr or process.stdout).strip().splitlines()[-8:])
        raise ServerError(
            f"Installing {name} failed; is a package index reachable? Name one (PIP_INDEX_URL), or a folder with the "
            f"files (PIP_FIND_LINKS).\n{end}"
        )
