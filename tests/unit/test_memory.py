"""Memory that a container is granted, by files as cgroups have them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from inferbench_tasks.memory import left_bytes, limit_bytes
from inferbench_tasks.sandbox import limits


def put(folder: Path, own: str, **files: str) -> tuple[Path, Path]:
    """A /proc whose own cgroup this is, and a folder of cgroups; ``/`` of a path is written ``__``."""
    proc, cgroups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(own)
    for name, text in files.items():
        path = cgroups / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return proc, cgroups


@pytest.mark.parametrize(
    ("own", "files", "limit", "left"),
    [
        ("0::/\n", {}, None, None),
        ("0::/\n", {"memory.max": "max", "memory.current": "5"}, None, None),
        ("0::/\n", {"memory.max": "9000", "memory.current": "4000"}, 9000, 5000),
        # The least limit, and the least that is left, may be of two groups.
        ("0::/a/b\n", {"a__memory.max": "9000", "a__memory.current": "8500", "a__b__memory.max": "3000",
                       "a__b__memory.current": "100"}, 3000, 500),
        ("4:memory:/a/b\n0::/c\n", {"memory__memory.limit_in_bytes": str(1 << 63),
                                    "memory__a__memory.limit_in_bytes": "5000",
                                    "memory__a__memory.usage_in_bytes": "6000",
                                    "memory__a__b__memory.limit_in_bytes": "7000", "c__memory.max": "max"}, 5000, 0),
        # The limit of another controller's group is none.
        ("4:cpu:/a\n", {"memory__a__memory.limit_in_bytes": "5000"}, None, None),
    ],
)  # fmt: skip
def test_the_least_limit_on_the_way_up_counts(
    tmp_path: Path, own: str, files: dict[str, str], limit: int | None, left: int | None
) -> None:
    """Of either version; version 1's huge number and version 2's "max" are no limits, and nobody has less than 0."""
    proc, cgroups = put(tmp_path, own, **files)
    assert limit_bytes(proc, cgroups) == limit
    assert left_bytes(proc, cgroups) == left


@pytest.mark.parametrize(
    ("own", "files", "left"),
    [
        ("0::/\n", {"memory.max": "9000", "memory.current": "8000",
                    "memory.stat": "anon 500\ninactive_file 4000\nactive_file 2000\nshmem 300\n"}, 7000),
        ("4:memory:/\n", {"memory__memory.limit_in_bytes": "9000", "memory__memory.usage_in_bytes": "8000",
                          "memory__memory.stat": "inactive_file 1\ntotal_inactive_file 4000\n"}, 5000),
        ("0::/\n", {"memory.max": "9000", "memory.current": "8000"}, 1000),
    ],
)  # fmt: skip
def test_pages_of_files_are_left_to_who_needs_memory(
    tmp_path: Path, own: str, files: dict[str, str], left: int
) -> None:
    """Of either version, if they are asked for; nothing where the kernel does not tell them."""
    proc, cgroups = put(tmp_path, own, **files)
    assert left_bytes(proc, cgroups, cached=True) == left
    assert left_bytes(proc, cgroups) == 1000


def test_the_sandbox_takes_its_share_of_the_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """90% of a limit below the machine's memory, and of the machine's where the limit is above it."""
    total = psutil.virtual_memory().total
    for limit, most in ((1_000_000, 900_000), (2 * total, int(0.9 * total)), (None, int(0.9 * total))):
        monkeypatch.setattr(limits, "limit_bytes", lambda limit=limit: limit)
        assert limits.most_bytes() == most
