"""The paced server of streams in a process of its own, and its log: the truth about what it did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StandIn:
    """A running one."""

    port: int
    log_path: Path
    scheme: str = "http"
    pid: int = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def log(self) -> list[dict[str, Any]]:
        """What it says of each request that is over, in the order in which they ended."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]


@contextmanager
def stand_in(folder: Path, *options: str) -> Iterator[StandIn]:
    """Run one for the length of a ``with``; it ends with its standard input."""
    log_path = folder / "stand-in.jsonl"
    command = [
        sys.executable,
        "-m",
        "inferbench_tasks.servers.llm_stand_in",
        "--log",
        str(log_path),
        *options,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield StandIn(int(process.stdout.readline()), log_path, pid=process.pid)
        finally:
            process.stdin.close()
            process.wait(20)
