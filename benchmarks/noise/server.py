"""A server whose work is known: ``python -m benchmarks.noise.server WORK_MS KIND`` prints its port and serves until its
standard input ends.

One request after the other, each with the same number of turns of the same work: on the CPU's registers, through a
cache or through memory. How many turns make WORK_MS is measured at the start, as the fastest of many.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from inferbench_tasks.loadgen.null_server import NullHttp, answer_message

#: What a turn of the work is done on, bytes: within the second-level cache, within the third, beyond it.
KINDS = {"cpu": 1 << 14, "cache": 1 << 19, "memory": 1 << 26}


class Working(NullHttp):
    """Works before it answers."""

    def __init__(self, answer: bytes, work: Callable[[], None]) -> None:
        super().__init__(answer)
        self._work = work
        self._plain: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its answers go through this object."""
        self._plain = transport
        super().connection_made(self)  # type: ignore[arg-type]

    def write(self, answer: bytes) -> None:
        """Called when a request is complete."""
        self._work()
        self._plain.write(answer)


def turn_of(kind: str) -> Callable[[], None]:
    """One turn of the work."""
    values = np.arange(KINDS[kind] // 8, dtype=np.int64)
    places = np.random.default_rng(1).integers(0, len(values), 2000)

    def turn() -> None:
        values[places].sum()

    return turn


def working(work_ms: float, kind: str) -> Callable[[], None]:
    """So many turns that they take ``work_ms`` where nobody disturbs."""
    turn = turn_of(kind)
    fastest_s = float("inf")
    for _ in range(300):
        start_s = time.perf_counter()
        for _ in range(10):
            turn()
        fastest_s = min(fastest_s, (time.perf_counter() - start_s) / 10)
    turns = max(1, round(work_ms / 1e3 / fastest_s))

    def work() -> None:
        for _ in range(turns):
            turn()

    return work


async def _serve(work_ms: float, kind: str) -> None:
    loop = asyncio.get_running_loop()
    work, answer = working(work_ms, kind), answer_message("http", 64)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = await loop.create_server(lambda: Working(answer, work), sock=listener, backlog=512)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


@contextmanager
def working_server(work_ms: float, kind: str) -> Iterator[tuple[int, int]]:
    """Its process id and port; in a session of its own, as served ones are."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.noise.server", str(work_ms), kind], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    try:
        yield child.pid, int(child.stdout.readline())
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), sys.argv[2]))
