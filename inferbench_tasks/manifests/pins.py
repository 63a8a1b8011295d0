"""Which files of a package may be installed: the hashes of ``constraints.hashes.txt`` and of environments' locks."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Beside the package in a checkout; an installation from a wheel has none, and then no hashes are known.
CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.hashes.txt"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A package's version, and the SHA-256 of each file of it that may be installed."""

    version: str
    hashes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the hashes in their order: one word for dozens of files."""
        return hashlib.sha256("\n".join(sorted(self.hashes)).encode()).hexdigest()


def read_pins(text: str) -> dict[str, Pin]:
    """The pins of a requirements file with hashes, by the package's normal name."""
    versions: dict[str, str] = {}
    hashes: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := _PIN.match(line):
            name = normal(match[1])
            versions[name], hashes[name] = match[2], []
        if name:
            hashes[name] += _HASH.findall(line)
    return {name: Pin(version, tuple(sorted(hashes[name]))) for name, version in versions.items()}


@cache
def pins_of(path: Path) -> dict[str, Pin]:
    """The pins of a file; {} where there is none."""
    return read_pins(path.read_text(encoding="utf-8")) if path.is_file() else {}


def hashes_of(package: str, installed: str) -> tuple[str, ...]:
    """The hashes that a package's files may have in that version; () where they are not known."""
    pin = pins_of(CONSTRAINTS).get(normal(package))
    return pin.hashes if pin is not None and pin.version == installed.partition("+")[0] else ()


def hashes_digest(package: str, installed: str) -> str | None:
    """SHA-256 over the hashes that a package's files may have in that version; None where they are not known."""
    hashes = hashes_of(package, installed)
    return Pin(installed, hashes).digest if hashes else None


def installed_version(package: str) -> str | None:
    """The version in this environment; None where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def normal(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
