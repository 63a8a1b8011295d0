"""Our clients beside their peers against the same servers, in one run: the table of gates, passed or failed.

    .venv/bin/python -m benchmarks.load.compare [--rounds 5] [--seconds 2] [--triton]

What is not installed is left out and said to be. How the peers were installed:

    wrk, h2load      apt-get install wrk nghttp2-client
    nginx with Lua   apt-get install nginx libnginx-mod-http-lua
    locust           pip install locust, in an environment of its own; LOCUST=<path of the command>
    aiohttp, grpc.aio   pip install 'inferbench[reference]' (they are also our reference clients)
    perf_analyzer    pip install --no-deps tritonclient==2.41.0 nvidia-cuda-runtime-cu12, in an environment of
                     its own, and apt-get install libb64-0d; PERF_ANALYZER=<path of bin/perf_analyzer>
    Triton           by itself (nvidia-pytriton's binary, as ``serve.backend: triton`` runs it)

Every client of a gate has the same server, payload, protocol, duration and 32 requests under way (8 images);
the gRPC clients have 4 connections where one can choose. Rounds are interleaved (each client once, then all again, in
turns forwards and backwards), ratios are taken within a round, and the median of the rounds decides.

* canned: nginx with one worker, Lua answers; 1 KB of request, about 64 bytes of answer, HTTP and gRPC.
  It bounds the fastest clients, so they are also measured against our null server; that row is no gate.
* Triton, small: a dense layer, 24 bytes; Triton, image: 602 KB; both by ONNX Runtime in the python backend.
* Triton, image, shared: the same server and images, whose inputs lie in system shared memory (``load.transport``,
  perf_analyzer's ``--shared-memory system``, which has its outputs there too; ours come over the network).
* arrivals: the canned server stamps each request's arrival; see ``arrivals``.

CPU is user and system time of the client alone. Linux shares the processors out by session (autogroups):
on a machine with other work put the whole run into a control group of its own, so that a client in a session
of its own gets no more than another.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.load import arrivals, peers
from benchmarks.load import triton as real
from benchmarks.load.canned import canned_grpc
from benchmarks.load.gates import report
from benchmarks.load.peers import CONNECTIONS, USERS, Measured, PeerError
from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.clients.answers import Outputs
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.launchers.processes import of_session
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column, is_ok
from inferbench_tasks.loadgen.shared_inputs import layout, registered, write
from inferbench_tasks.submission.schema import SHARED_MEMORY, LoadSpec
from tests import nginx
from tests.load_servers import endpoint

#: The request's tensor, float32 numbers: about 1 KB.
SIZE = 256
RATES = (500.0, 2000.0)
#: Of images; 32 of them would be 19 MB under way.
IMAGE_USERS = 8
WARMUP_S = 0.5
#: Room for each output of perf_analyzer's in shared memory: the images' have 12 bytes.
OUTPUT_BYTES = 1024


def ours(
    folder: Path,
    where: Endpoint,
    inputs: dict[str, Any],
    seconds: float,
    client: str = "fast",
    users: int = USERS,
    region: str | None = None,
    **options: Any,
) -> Measured:
    """Our sender in a closed loop, by the fast or the reference client; ``region``: its inputs lie in shared memory."""
    shared = layout(inputs, region, 1, rows_of_one=where.rows_of_one) if region else None
    np.savez(folder / "inputs.npz", **inputs)
    spec = LoadSpec.model_validate(
        {
            "arrivals": {"kind": "closed_loop", "concurrency": users}, "duration_s": seconds,
            "warmup_s": WARMUP_S,
            "client": client, "shards": 1, **options,
        }
    )  # fmt: skip
    plan = prepare(
        spec, folder=folder / "load", endpoint=where, inputs_path=str(folder / "inputs.npz"), base_dir=folder,
        shared=shared,
    )  # fmt: skip
    with registered(shared, where) if shared else nullcontext():
        outcome = apply_load(plan, folder / "samples.parquet")
    table = outcome.table()
    good = is_ok(table)
    if not good.all():
        raise SystemExit(f"{client} {where.url}: {outcome.applied.explanations}")
    done_ns = column(table, "done_ns")
    count = int(((done_ns > outcome.measure_start_ns) & (done_ns <= outcome.measure_end_ns)).sum())
    cpu_s = sum(usage.cpu_s for usage in outcome.applied.usages)
    return Measured(count / seconds, cpu_s * 1e6 / count)


def with_server(measure: Callable[[], Measured], leader: int, seconds: float) -> Measured:
    """A measurement with the CPU that the server's session used per request, at the same rate all the time."""

    def used_s() -> float:
        times = [process.cpu_times() for process in of_session(leader)]
        return sum(t.user + t.system for t in times)

    before_s = used_s()
    measurement = measure()
    return replace(measurement, server_cpu_us=(used_s() - before_s) * 1e6 / (measurement.rps * seconds))


Clients = dict[str, Callable[[], Measured]]
Pacers = dict[tuple[str, float], Callable[[], arrivals.Paced]]


class Bench:
    """The servers that run, the clients to measure against them, and what could not be had."""

    def __init__(self, stack: ExitStack, folder: Path, seconds: float) -> None:
        self._stack = stack
        self._folder = folder
        self._seconds = seconds
        self.clients: Clients = {}
        self.pacers: Pacers = {}
        self.left_out: list[str] = []
        self._inputs: dict[str, Any] = {"input": np.zeros((4, SIZE), np.float32)}
        self._first: Outputs = {"input": self._inputs["input"][:1]}

    def grpc(self, suffix: str, where: Endpoint, *, reference: bool) -> None:
        """Our gRPC client, and its peers, against a server that answers anything."""
        folder, seconds = self._folder, self._seconds
        mine = partial(ours, folder, where, self._inputs, seconds, connections=CONNECTIONS)
        self.clients[f"ours grpc{suffix}"] = mine
        if reference:
            self.clients[f"grpc.aio{suffix}"] = partial(mine, client="reference")
        if shutil.which("h2load"):
            wire = kserve_grpc.encode_request(where, self._first)
            self.clients[f"h2load{suffix}"] = partial(peers.h2load, folder, where, wire, seconds)
        else:
            self.left_out.append("h2load is not installed")

    def canned(self) -> None:
        """nginx's answers, over gRPC and HTTP."""
        if reason := nginx.missing():
            self.left_out.append(f"all canned servers: {reason}")
            return
        folder, seconds = self._folder, self._seconds
        server = self._stack.enter_context(canned_grpc(folder / "grpc", SIZE))
        self.grpc("", server.where, reference=True)
        for rate in RATES:
            arguments = (folder, server, rate, seconds, SIZE)
            self.pacers["ours", rate] = partial(arrivals.ours, *arguments)
            if os.environ.get("PERF_ANALYZER"):
                self.pacers["perf_analyzer", rate] = partial(arrivals.perf_analyzer, *arguments)
        port = self._stack.enter_context(
            nginx.nginx(folder / "http", canned_bytes=64, inputs=SIZE, keepalive_requests=10**9)
        )
        http = endpoint("http", port)
        wire = kserve_http.encode_request(http, self._first)
        mine = partial(ours, folder, http, self._inputs, seconds)
        self.clients["ours http"] = mine
        self.clients["aiohttp"] = partial(mine, client="reference")
        if shutil.which("wrk"):
            self.clients["wrk"] = partial(peers.wrk, folder, http, wire, seconds)
        else:
            self.left_out.append("wrk is not installed")
        if shutil.which(os.environ.get("LOCUST", "locust")):
            self.clients["locust"] = partial(peers.locust, folder, http, wire, seconds)
        else:
            self.left_out.append("locust is not installed (LOCUST=...)")

    def triton(self) -> None:
        """A real Triton for each size of request."""
        folder, seconds = self._folder, self._seconds
        if not os.environ.get("PERF_ANALYZER"):
            self.left_out.append("perf_analyzer is not installed (PERF_ANALYZER=...)")
        for name, start, users in (("triton", real.small, USERS), ("triton image", real.image, IMAGE_USERS)):
            server, samples = start(self._stack, folder)
            where = server.where
            mine = partial(ours, folder, where, samples, seconds, users=users, connections=CONNECTIONS)
            self.clients[f"ours {name}"] = partial(with_server, mine, server.leader, seconds + WARMUP_S)
            self.clients[f"grpc.aio {name}"] = partial(mine, client="reference")
            theirs = partial(peers.perf_analyzer, where, seconds, users)
            if os.environ.get("PERF_ANALYZER"):
                self.clients[f"perf_analyzer {name}"] = theirs
            if server.region is None:
                continue
            write(layout(samples, server.region, 1, rows_of_one=where.rows_of_one), samples)
            shared = partial(mine, region=server.region, transport=SHARED_MEMORY)
            self.clients[f"ours {name} shared"] = partial(
                with_server, shared, server.leader, seconds + WARMUP_S
            )
            if os.environ.get("PERF_ANALYZER"):
                self.clients[f"perf_analyzer {name} shared"] = partial(theirs, output_bytes=OUTPUT_BYTES)


T = TypeVar("T")


def once_more(measure: Callable[[], T]) -> T:
    """A measurement; repeated, and said to be, where a peer gave up (a machine with other work)."""
    for _ in range(2):
        try:
            return measure()
        except PeerError as error:
            print(f"repeated: {error}", file=sys.stderr)
    return measure()


def main() -> int:
    """Run and print; 1 if a gate failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--triton", action="store_true", help="also against a real Triton")
    options = parser.parse_args()
    assert USERS % CONNECTIONS == 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-compare-")))
        bench = Bench(stack, folder, options.seconds)
        bench.canned()
        bench.grpc(" null", stack.enter_context(null_server("grpc")), reference=False)
        if options.triton:
            bench.triton()
        rounds: list[dict[str, Measured]] = []
        paced: list[dict[tuple[str, float], arrivals.Paced]] = []
        try:
            for index in range(options.rounds):
                step = 1 if index % 2 == 0 else -1
                clients = {name: once_more(bench.clients[name]) for name in list(bench.clients)[::step]}
                paced.append({key: once_more(bench.pacers[key]) for key in list(bench.pacers)[::step]})
                rounds.append(clients)
                print(f"round {index + 1} of {options.rounds}", file=sys.stderr)
        except KeyboardInterrupt:
            bench.left_out.append(f"the last {options.rounds - len(rounds)} rounds (interrupted)")
        if not rounds:
            return 1
        return report(rounds[: len(paced)], paced[: len(rounds)], bench.left_out)


if __name__ == "__main__":
    sys.exit(main())
