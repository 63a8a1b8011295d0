"""What one traced request costs its server and its sender, beside the same request that is not traced.

    python -m benchmarks.mlmodelscope.traced_cost [GROUPS]

``one_in`` judges whole loads, which differ by several percent anyhow. Here three ways are mixed request by request, so
that what drifts meets all of them alike: ``none`` (the server has no recorder), ``unasked`` (it has one, the request
does not ask), ``traced`` (it asks). Of each group of twenty one of each way counts, at places drawn by chance; the
others are unasked, so that a traced one finds the caches as in a load.

Our app under uvicorn's protocol, over a socket, with a model of one product of matrices on ONNX Runtime, all in one
process, whose CPU time counts until a pause after the answer is over. The sender's is the look-up of a request, in the
list of a load without traces and in that of one with them. It judges nothing, and takes half a minute (500 groups).
"""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import orjson
import uvloop
from uvicorn.server import ServerState

from benchmarks.mlmodelscope.one_in import ONE_IN
from inferbench_tasks.clients.base import Payload
from inferbench_tasks.clients.kserve_http import encode_request
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.loadgen.sampled import SampledPayloads
from inferbench_tasks.protocols.traceparent import one_in_context, with_header
from inferbench_tasks.servers.config import Tracing
from inferbench_tasks.servers.http import InferenceApp
from inferbench_tasks.servers.main import http_config
from inferbench_tasks.servers.model import ServedModel
from tests.serving_cases import Case, dense_case, server_config

WAYS = ("none", "unasked", "traced")
_WARMUP_GROUPS, _PAUSE_S = 20, 0.0005


async def of_server(case: Case, folder: Path, groups: int) -> dict[str, list[float]]:
    """CPU time of each counted request by its way, us."""
    tracing = Tracing(path=str(folder / "told.json"))
    model = ServedModel(server_config(case, folder, tracing=tracing, threads=1))
    model.load()
    recorder = model.recorder
    config = http_config(InferenceApp(model, "0"))
    config.load()
    loop, (here, there) = asyncio.get_running_loop(), socket.socketpair()
    here.setblocking(False)
    protocol: Any = config.http_protocol_class
    made = protocol(config=config, server_state=ServerState(), app_state={})
    await loop.connect_accepted_socket(lambda: made, there)
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name=model.name)
    wire = encode_request(endpoint, {name: array[:1] for name, array in case.samples.items()})
    contexts = (one_in_context("traced-cost", number, 1) for number in range(-_WARMUP_GROUPS, groups))
    asking = [with_header(wire, context) for context in contexts if context is not None]
    rng = random.Random(1)
    used: dict[str, list[float]] = {way: [] for way in WAYS}
    for group in range(-_WARMUP_GROUPS, groups):
        places = dict(zip(rng.sample(range(ONE_IN), len(WAYS)), WAYS, strict=True))
        for place in range(ONE_IN):
            way = places.get(place, "unasked")
            sent = asking[group + _WARMUP_GROUPS] if way == "traced" else wire
            model.recorder = None if way == "none" else recorder
            before_ns = time.process_time_ns()
            await loop.sock_sendall(here, sent)
            answer = await loop.sock_recv(here, 1 << 16)
            await asyncio.sleep(_PAUSE_S)
            used_us = (time.process_time_ns() - before_ns) / 1e3
            assert answer.startswith(b"HTTP/1.1 200"), answer
            if group >= 0 and place in places:
                used[way].append(used_us)
    model.recorder = recorder
    model.close()
    recorded = len(orjson.loads((folder / "told.json").read_bytes())["requests"])
    if recorded != len(asking):
        raise SystemExit(f"of {len(asking)} traced requests {recorded} were recorded")
    return used


def of_sender(groups: int) -> dict[str, list[float]]:
    """What a look-up takes in the list of a load without traces, and in that of one with them, us."""
    numbers = range(groups * ONE_IN)
    built = [Payload(b"POST /x HTTP/1.1\r\n\r\n" + bytes(600), at, 1) for at in range(1000)]
    sampled = SampledPayloads(built, "s", ONE_IN, over_http=True, ahead=numbers).made or []
    chosen = [number for number in numbers if sampled[number].metadata]
    others = [number for number in numbers if not sampled[number].metadata][: len(chosen)]
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for numbers_of in zip(others, others, chosen, strict=True):
        for way, payloads, number in zip(WAYS, (built, sampled, sampled), numbers_of, strict=True):
            start_ns = time.perf_counter_ns()
            payloads[number % len(payloads)]
            taken[way].append((time.perf_counter_ns() - start_ns) / 1e3)
    return taken


def told(who: str, values: dict[str, list[float]]) -> None:
    """Print each way's median, and how much more it is than the first."""
    print(f"{who}, us a request:")
    for way, each in values.items():
        more = [one - other for one, other in zip(each, values[WAYS[0]], strict=True)]
        print(
            f"    {way:8} median {median(each):8.2f}; more: median {median(more):+7.2f}, "
            f"mean {fmean(more):+7.2f} (standard error {stdev(more) / len(more) ** 0.5:.2f})"
        )


def main() -> None:
    """Measure and print; see the module."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory(prefix="traced-cost-") as name:
        folder = Path(name)
        told("server's CPU time", uvloop.run(of_server(dense_case(folder), folder, groups)))
    told("sender's look-up", of_sender(groups))


if __name__ == "__main__":
    main()
