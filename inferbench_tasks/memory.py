"""How much memory this process is granted: the limits of its cgroup and of those above it, in both versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
#: Version 1 has a huge number where there is no limit.
_NO_LIMIT_BYTES = 1 << 60
#: Of versions 2 and 1: limit, and what is used of it; version 1 has those below a cgroup apart in ``memory.stat``.
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def limit_bytes(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """The least limit; None without any."""
    return min((limit for _, limit, _ in _limits(proc, cgroups)), default=None)


def left_bytes(proc: Path = _PROC, cgroups: Path = _CGROUPS, *, cached: bool = False) -> int | None:
    """What the cgroups still leave, of the one that leaves least; None without a limit. What the page cache has counts
    as used; ``cached``: as left, for the kernel gives it back.
    """
    left = (
        limit - used + (_of_files(path) if cached else 0)
        for path, limit, used in _limits(proc, cgroups)
        if used is not None
    )
    return min((max(0, each) for each in left), default=None)


def _limits(proc: Path, cgroups: Path) -> Iterator[tuple[Path, int, int | None]]:
    """(folder, limit, used) of each cgroup that has a limit; None where it does not tell."""
    with suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            folder = cgroups / "memory" if controllers else cgroups
            here = folder / own.lstrip("/")
            for path in (here, *here.parents):
                for limit_file, used_file in _FILES:
                    limit = _number(path / limit_file)
                    if limit is not None and limit < _NO_LIMIT_BYTES:
                        yield path, limit, _number(path / used_file)
                if path == folder:
                    break


def _of_files(cgroup: Path) -> int:
    """What pages of files take in a cgroup with those below it, without shared memory; 0 where it does not tell."""
    with suppress(OSError, ValueError):
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        names = ("inactive_file", "active_file")
        return sum(int(stat.get(f"total_{name}") or stat.get(name) or 0) for name in names)
    return 0


def _number(path: Path) -> int | None:
    """None where there is no such file, or ``max``."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
