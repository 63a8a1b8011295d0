"""How many cores this process is granted: those that it may run on, at most the CPU quota of its cgroup.

A container with a quota (``docker run --cpus 2``, a limit of Kubernetes) may run on every core of its host, and is
stopped in each period once all its threads together have used what they are granted. As many threads as the host has
cores would measure these stops.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Whole cores, one at least: of a quota of 2.5 two, for on the third a thread would run half of the time."""
    allowed, limit = len(os.sched_getaffinity(0)), cpu_limit_cores()
    return allowed if limit is None else max(1, min(allowed, int(limit)))


def granted() -> list[int]:
    """The numbers of so many cores, the first of those that this process may run on.

    A quota names no cores: pinned to these, what is measured has as many as it is granted, and keeps them.
    """
    return sorted(os.sched_getaffinity(0))[: usable_cores()]


def listed(text: str) -> list[int]:
    """The cores of a list as the kernel writes it: ``0,4`` or ``0-1``; an empty one has none."""
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return [core for low, _, high in ranges for core in range(int(low), int(high or low) + 1)]


def cpu_limit_cores() -> float | None:
    """The smallest CPU quota of this process's cgroup and those above it, cores; None if there is none."""
    return min(_limits(), default=None)


def _limits() -> Iterator[float]:
    for controllers, path in _own_groups():
        version_2 = not controllers
        if not version_2 and "cpu" not in controllers:
            continue
        base = (
            _CGROUPS
            if version_2
            else next(filter(Path.is_dir, (_CGROUPS / "cpu", _CGROUPS / "cpu,cpuacct")), None)
        )
        if base is None:
            continue
        for group in _with_those_above(path):
            limit = _of_version_2(base / group) if version_2 else _of_version_1(base / group)
            if limit is not None:
                yield limit


def _own_groups() -> Iterator[tuple[list[str], str]]:
    """(controllers, path) of each line; of version 2 no controllers. Where the file tells nothing, the roots."""
    lines = (_text(_OWN) or "").splitlines() or ["0::/", "1:cpu:/"]
    for line in lines:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        yield [name for name in names.split(",") if name], path


def _with_those_above(path: str) -> Iterator[str]:
    """``a/b``, ``a`` and the root, which in a container is the container's own."""
    own = PurePosixPath(path.lstrip("/"))
    if ".." not in own.parts:  # a group outside of what this container sees
        yield from (str(group) for group in (own, *own.parents))
    else:
        yield "."


def _of_version_2(group: Path) -> float | None:
    limit, _, period = (_text(group / "cpu.max") or "max").partition(" ")
    return _ratio(limit, period)


def _of_version_1(group: Path) -> float | None:
    return _ratio(_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))


def _ratio(quota: str | None, period: str | None) -> float | None:
    """-1 and ``max`` are no limit."""
    if not quota or not period or not quota.isdigit() or not period.isdigit() or not int(period):
        return None
    return int(quota) / int(period) or None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
