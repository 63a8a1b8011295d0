"""A start of our server whose recorder can be taken away and given back; see ``switched_server``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from benchmarks.mlmodelscope.switched_server import SIGNALS, STATE
from inferbench_tasks.backends.probes.base import open_probe
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.servers.config import Tracing
from tests.serving_cases import Case, running_server, server_config

_WAIT_S = 60.0


@dataclass(frozen=True)
class Server:
    """A start of our server, whose model is ready."""

    endpoint: Endpoint
    pid: int
    folder: Path

    def cpu_ns(self) -> int:
        """What all its threads have used of the cores; it has no other processes."""
        return time.clock_gettime_ns((~self.pid << 3) | 2)  # the clock of a process's CPU time (Linux)

    def switch(self, on: bool) -> None:
        """With its recorder or without; back once that holds."""
        state = self.folder / STATE
        if state.read_text() == str(on):
            return  # a signal that nobody waits for might be heard after the next one
        os.kill(self.pid, SIGNALS[on])
        deadline_s = time.monotonic() + _WAIT_S
        while state.read_text() != str(on):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"the server did not switch its recorder {'on' if on else 'off'}")
            time.sleep(0.005)

    def traced(self) -> set[str]:
        """The traces that it tells of, once it has ended."""
        return {row["trace_id"] for row in orjson.loads((self.folder / "told.json").read_bytes())["requests"]}


@contextmanager
def started(case: Case, folder: Path) -> Iterator[Server]:
    """A server whose answer is the case's; it writes down what it recorded when it ends."""
    tracing = Tracing(path=str(folder / "told.json"))
    config = server_config(case, folder, tracing=tracing, threads=1)
    with running_server(config, folder, "benchmarks.mlmodelscope.switched_server") as ports:
        pid = orjson.loads(Path(config.address_path).read_bytes())["pid"]
        endpoint = Endpoint(
            protocol="http", host=config.host, port=ports["http"], model_name=config.model_name
        )
        server = Server(endpoint, pid, folder)
        with closing(open_probe(endpoint)) as probe:
            deadline_s = time.monotonic() + _WAIT_S
            while not probe.ready():
                if time.monotonic() > deadline_s:
                    raise SystemExit(f"the server's model is not ready after {_WAIT_S:g} s")
                time.sleep(0.05)
            answers = probe.infer({name: array[:1] for name, array in case.samples.items()})
        for name, wanted in case.reference.items():
            np.testing.assert_allclose(answers[name], wanted[:1], rtol=1e-4)
        yield server
        server.switch(True)
