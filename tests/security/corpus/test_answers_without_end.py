"""Servers under test that send without end: every client and every probe ends, and its memory stays small."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.load_servers import serving
from tests.security.hostile_servers import GRPC, HTTP

pytestmark = [
    pytest.mark.timeout(30, func_only=True),
    # Only the hostile server runs in this process: a connection that its victim ends may leave a transport half closed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]
ROOT = Path(__file__).parents[3]
MAX_MIB = 300
ASKERS = [
    *(("http", f"http{name}") for name in ("", "-reference", "-tritonclient")),
    ("http", "probe-http"),
    ("http", "metadata-http"),
    ("http", "metrics"),
    *(("grpc", f"grpc{name}") for name in ("", "-reference", "-tritonclient")),
    *(("grpc", f"grpc_tfs{name}") for name in ("", "-reference")),
    ("grpc", "probe-grpc"),
    ("grpc", "probe-grpc_tfs"),
    ("grpc", "metadata-grpc"),
]
CASES = {"http": HTTP, "grpc": GRPC}


class Asker:
    """A process that asks, for each kind by a fork of its own, so that what all kinds need is imported once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.security.ask_hostile"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, kind: str, port: int) -> dict[str, Any]:
        """How the requests of that kind to that port ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{kind} {port}\n")
        self._process.stdin.flush()
        line: dict[str, Any] = json.loads(self._process.stdout.readline())
        return line

    def close(self) -> None:
        """It ends with its standard input."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    """The process that asks."""
    running = Asker()
    yield running
    running.close()
    gc.collect()  # what a victim left half closed is told here, and in no test after these


@pytest.mark.parametrize(
    ("kind", "protocol", "case"),
    [
        # What reads gRPC is the same whatever messages are in it.
        pytest.param(
            kind, protocol, case, id=f"{kind}, {case}", marks=[pytest.mark.long] if "grpc_tfs" in kind else []
        )
        for protocol, kind in ASKERS
        for case in CASES[protocol]
    ],
)
def test_an_endless_answer_costs_little_memory_and_ends(
    asker: Asker, kind: str, protocol: str, case: str
) -> None:
    """Whatever a server sends, every request has an end that is no good answer, in less than 300 MB."""
    with serving(CASES[protocol][case]) as server:
        ending = asker.ask(kind, server.port)
    assert ending["peak_mib"] < MAX_MIB, ending
    assert "ok" not in ending["statuses"], ending
