"""The real clients and probes against one server after another, each kind in a process whose memory is measured.

``python -m tests.security.ask_hostile`` reads a kind and a port a line from standard input, and prints for each how
eight requests ended, and the peak of memory. A kind is a client, ``probe-<protocol>``, ``metadata-<protocol>`` or
``metrics``.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.clients import kserve_grpc, kserve_http, tfs_grpc
from inferbench_tasks.clients.answers import AnswerCheck, Decode, ExpectedOutput, Outputs
from inferbench_tasks.clients.base import CLIENTS, TIMEOUT, Call, ClientSettings, Payload, Sink
from inferbench_tasks.clients.metadata import fetch_metadata
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors.prometheus import fetch
from tests.load_servers import endpoint

REQUESTS = 8
TIMEOUT_S = 0.5


class Waiting(Sink):
    """Keeps how each call ended."""

    def __init__(self) -> None:
        self.statuses: dict[int, str] = {}
        self.words: dict[str, str] = {}

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self.statuses.setdefault(call.request_id, status)
        call.done = True

    def ready(self) -> None:
        """All were sent at once."""

    def again(self, call: Call) -> None:
        self.finish(call, "refused", -1)

    def unreachable(self, reason: str) -> None:
        """Those that are under way end by themselves."""

    def explain(self, status: str, text: str) -> None:
        self.words.setdefault(status, text)


async def load(kind: str, port: int) -> dict[str, Any]:
    """Requests by a client of a load, which gives them up after half a second as the sender does."""
    protocol = kind.partition("-")[0]
    where = endpoint(protocol, port)
    inputs: Outputs = {"input": np.zeros((1, 4), np.float32)}
    decode: Decode
    if protocol == "http":
        wire, decode = kserve_http.encode_request(where, inputs, binary=True), kserve_http.decode_answer
    elif protocol == "grpc":
        wire, decode = kserve_grpc.encode_request(where, inputs), kserve_grpc.decode_answer
    else:
        wire, decode = tfs_grpc.encode_request(where, inputs), tfs_grpc.decode_answer
    sink = Waiting()
    check = AnswerCheck(decode, {"output": ExpectedOutput((4,))})
    settings = ClientSettings(where, REQUESTS, timeout_ns=int(TIMEOUT_S * 1e9), connect_timeout_s=TIMEOUT_S)
    client = CLIENTS.load(kind)(settings, asyncio.get_running_loop(), sink, check)
    calls = [Call(number, 0, Payload(wire, 0, 1)) for number in range(REQUESTS)]
    try:
        await client.open(REQUESTS)
        for call in calls:
            client.send(call)
        end_s = time.monotonic() + TIMEOUT_S
        while len(sink.statuses) < REQUESTS and time.monotonic() < end_s:
            await asyncio.sleep(0.01)
        for call in calls:
            if not call.done:
                client.abandon(call)
                sink.finish(call, TIMEOUT, -1)
    except OSError as error:
        sink.words["open"] = str(error)
    finally:
        await client.close()
    return {"statuses": sorted(set(sink.statuses.values())), "words": sink.words}


def question(kind: str, port: int) -> dict[str, Any]:
    """A question of a probe, for metadata or for a page of metrics."""
    who, _, protocol = kind.partition("-")
    words = ""
    try:
        if who == "metrics":
            fetch(f"http://127.0.0.1:{port}/metrics")
        elif who == "metadata":
            fetch_metadata(endpoint(protocol, port))
        else:
            probe = open_probe(endpoint(protocol, port), timeout_s=TIMEOUT_S)
            try:
                assert not probe.ready()
                probe.infer({"input": np.zeros((1, 4), np.float32)})
            finally:
                probe.close()
    except (OSError, Refused, InputError, ValueError, http.client.HTTPException) as error:
        words = f"{type(error).__name__}: {error}"
    return {"statuses": ["refused"] if words else ["ok"], "words": {"refused": words}}


def peak_mib() -> float:
    """The process's peak of memory since it was last set back."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) / 1024


def say(words: dict[str, Any]) -> None:
    """One line for who started us."""
    sys.stdout.write(f"{json.dumps(words)}\n")
    sys.stdout.flush()


def answer(kind: str, ports: TextIO) -> None:
    """One answer for each port, a line of JSON each."""
    for port in ports:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        began_s = time.monotonic()
        ending = asyncio.run(load(kind, int(port))) if kind in CLIENTS else question(kind, int(port))
        say(ending | {"peak_mib": peak_mib(), "seconds": time.monotonic() - began_s})


class Asker:
    """A fork of this process that asks in one way: its memory is its own, without what other kinds import."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        ports, self._ports = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._ports)
            with open(ports) as lines:
                answer(kind, lines)
            os._exit(0)
        os.close(ports)

    def ask(self, port: str) -> None:
        """It answers on standard output."""
        os.write(self._ports, f"{port}\n".encode())

    def close(self) -> None:
        """It ends with its ports."""
        os.close(self._ports)
        os.waitpid(self._pid, 0)


def main() -> None:
    """One answer for each line of standard input."""
    asker: Asker | None = None
    for line in sys.stdin:
        kind, port = line.split()
        if asker is None or asker.kind != kind:
            if asker is not None:
                asker.close()
            asker = Asker(kind)
        asker.ask(port)
    if asker is not None:
        asker.close()


if __name__ == "__main__":
    main()
