"""Our clients beside their peers against the same servers, in one run: the table of gates, passed or failed.

    .venv/bin/python -m benchmarks.load.compare [--rounds 5] [--seconds 2] [--triton]

What is not installed is left out and said to be. How the peers were installed:

    wrk, h2load      apt-get install wrk nghttp2-client
    nginx with Lua   apt-get install nginx libnginx-mod-http-lua
    locust           pip install locust, in an environment of its own; LOCUST=<path of the command>
    aiohttp, grpc.aio   pip install 'inferbench[reference]' (they are also our reference clients)
    perf_analyzer    pip install --no-deps tritonclient==2.41.0 nvidia-cuda-runtime-cu12, in an environment of
                     its own, and apt-get install libb64-0d; PERF_ANALYZER=<path of bin/perf_analyzer>

Rounds are interleaved (each peer once, then all again), ratios are taken within a round, and the median
of the rounds decides. A canned nginx answers HTTP, the null server gRPC, Triton both if asked for.
CPU is user and system time of the client alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column, is_ok
from inferbench_tasks.stages.handles import Endpoint
from inferbench_tasks.submission.schema import LoadSpec
from tests import nginx
from tests.load_servers import endpoint

USERS = 32
#: The request's tensor, float32 numbers: about 1 KB.
SIZE = 256


@dataclass(frozen=True)
class Measured:
    """One client in one round; ``cpu_us``: per request."""

    rps: float
    cpu_us: float


def ours(
    folder: Path, where: Endpoint, inputs: dict[str, Any], seconds: float, client: str = "fast"
) -> Measured:
    """Our sender in a closed loop, by the fast or the reference client."""
    np.savez(folder / "inputs.npz", **inputs)
    spec = LoadSpec.model_validate(
        {
            "arrivals": {"kind": "closed_loop", "concurrency": USERS}, "duration_s": seconds, "warmup_s": 0.5,
            "client": client, "shards": 1,
        }
    )  # fmt: skip
    plan = prepare(
        spec, folder=folder / "load", endpoint=where, inputs_path=str(folder / "inputs.npz"), base_dir=folder
    )
    outcome = apply_load(plan, folder / "samples.parquet")
    table = outcome.table()
    good = is_ok(table)
    if not good.all():
        raise SystemExit(f"{client} {where.url}: {outcome.applied.explanations}")
    done = column(table, "done_ns")
    count = int(((done > outcome.measure_start_ns) & (done <= outcome.measure_end_ns)).sum())
    cpu_s = sum(usage.cpu_s for usage in outcome.applied.usages)
    return Measured(count / seconds, cpu_s * 1e6 / count)


def command(arguments: list[str], env: dict[str, str] | None = None) -> tuple[str, float]:
    """What a program prints, and the CPU time that it used, s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}, timeout=120
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{arguments[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}"
        )
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout + done.stderr, used


def number(pattern: str, text: str) -> float:
    """The number that a program's output names."""
    found = re.search(pattern, text)
    if not found:
        raise SystemExit(f"no {pattern!r} in: {text[-800:]}")
    return float(found[1].replace(",", ""))


def wrk(folder: Path, where: Endpoint, wire: bytes, seconds: float) -> Measured:
    """wrk -t1."""
    head, _, body = wire.partition(b"\r\n\r\n")
    (folder / "body").write_bytes(body)
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    lines = [f'wrk.headers["{k}"] = "{v}"' for k, v in headers.items() if k not in ("Host", "Content-Length")]
    script = [
        'wrk.method = "POST"',
        f'local f = io.open("{folder}/body", "rb"); wrk.body = f:read("*a"); f:close()',
        *lines,
    ]
    (folder / "post.lua").write_text("\n".join(script))
    url = f"http://{where.url}/v2/models/{where.model_name}/infer"
    arguments = ["wrk", "-t1", f"-c{USERS}", f"-d{seconds:.0f}s", "-s", str(folder / "post.lua"), url]
    text, cpu_s = command(arguments)
    if "Non-2xx" in text:
        raise SystemExit(f"wrk: {text}")
    return Measured(
        number(r"Requests/sec:\s+([\d.]+)", text), cpu_s * 1e6 / number(r"(\d+) requests in", text)
    )


def h2load(folder: Path, where: Endpoint, wire: bytes, seconds: float) -> Measured:
    """h2load with four connections."""
    (folder / "message").write_bytes(wire)
    text, cpu_s = command(
        [
            "h2load", "-c4", f"-m{USERS // 4}", f"-D{seconds:.0f}", "-d", str(folder / "message"),
            "-H", "content-type: application/grpc", "-H", "te: trailers",
            f"http://{where.url}/inference.GRPCInferenceService/ModelInfer",
        ]
    )  # fmt: skip
    return Measured(number(r", ([\d.]+) req/s", text), cpu_s * 1e6 / number(r"(\d+) succeeded", text))


LOCUST_FILE = """
from locust import FastHttpUser, task
BODY = open({body!r}, "rb").read()
class User(FastHttpUser):
    @task
    def ask(self):
        self.client.post({path!r}, data=BODY, headers={headers!r})
"""


def locust(folder: Path, where: Endpoint, wire: bytes, seconds: float) -> Measured:
    """locust's FastHttpUser, one process."""
    head, _, body = wire.partition(b"\r\n\r\n")
    (folder / "body").write_bytes(body)
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    headers = {k: v for k, v in headers.items() if k not in ("Host", "Content-Length")}
    path = f"/v2/models/{where.model_name}/infer"
    text = LOCUST_FILE.format(body=str(folder / "body"), path=path, headers=headers)
    (folder / "locustfile.py").write_text(text)
    out, cpu_s = command(
        [
            os.environ.get("LOCUST", "locust"), "-f", str(folder / "locustfile.py"), "--headless", "-u", str(USERS),
            "-r", str(USERS), "-t", f"{seconds + 1:.0f}s", "--host", f"http://{where.url}", "--json", "--skip-log",
        ]
    )  # fmt: skip
    (stats,) = json.loads(out[out.index("[") : out.rindex("]") + 1])
    if stats["num_failures"]:
        raise SystemExit(f"locust: {stats['num_failures']} failures")
    span = max(0.5, stats["last_request_timestamp"] - stats["start_time"])
    return Measured(stats["num_requests"] / span, cpu_s * 1e6 / stats["num_requests"])


def perf_analyzer(where: Endpoint, seconds: float) -> Measured:
    """perf_analyzer --async over gRPC, the mean of its windows."""
    binary = os.environ["PERF_ANALYZER"]
    site = Path(binary).resolve().parent.parent / "lib"
    cuda = next(iter(site.rglob("libcudart.so.12")), None)
    env = {"LD_LIBRARY_PATH": str(cuda.parent)} if cuda else {}
    text, cpu_s = command(
        [
            binary, "-m", where.model_name, "-u", where.url, "-i", "grpc", "--async", "--concurrency-range", str(USERS),
            "--measurement-interval", str(int(seconds * 1000)), "-s", "999", "--max-trials", "3",
        ],
        env,
    )  # fmt: skip
    count = number(r"Request count: (\d+)", text)
    return Measured(number(r"Throughput: ([\d.]+) infer/sec", text), cpu_s * 1e6 / max(1.0, count))


def pacing(folder: Path, where: Endpoint, rate: float, seconds: float) -> tuple[float, float, float]:
    """Send lateness p50 and p99, us, and the error of the achieved rate."""
    np.savez(folder / "inputs.npz", input=np.zeros((4, SIZE), np.float32))
    arrivals = {"kind": "poisson", "rate_rps": rate}
    spec = LoadSpec.model_validate(
        {"arrivals": arrivals, "duration_s": seconds, "warmup_s": 0.5, "shards": 1, "seed": 7}
    )
    plan = prepare(
        spec, folder=folder / "load", endpoint=where, inputs_path=str(folder / "inputs.npz"), base_dir=folder
    )
    outcome = apply_load(plan, folder / "samples.parquet")
    table = outcome.table()
    late = (column(table, "sent_ns") - column(table, "intended_ns")) / 1e3
    p50, p99 = np.quantile(late, [0.5, 0.99], method="inverted_cdf")
    return float(p50), float(p99), float(outcome.certificate(plan).figures["rate_error_ratio"])


@dataclass(frozen=True)
class Gate:
    """A ratio of two clients that must lie on one side of a bound, in the median of the rounds."""

    name: str
    over: str
    under: str
    bound: float
    of: str = "rps"
    at_most: bool = False


GATES = [
    Gate("gRPC requests/s against grpc.aio, canned", "ours grpc", "grpc.aio", 2.0),
    Gate("gRPC CPU per request against grpc.aio", "ours grpc", "grpc.aio", 0.25, "cpu_us", at_most=True),
    Gate("gRPC requests/s against grpc.aio, Triton", "ours triton", "grpc.aio triton", 1.5),
    Gate("gRPC requests/s against perf_analyzer, Triton, small", "ours triton", "perf_analyzer triton", 1.3),
    Gate("HTTP requests/s against locust FastHttpUser", "ours http", "locust", 5.0),
    Gate("HTTP requests/s against aiohttp", "ours http", "aiohttp", 4.0),
    Gate("HTTP requests/s against wrk", "ours http", "wrk", 0.4),
    Gate("gRPC requests/s against h2load", "ours grpc", "h2load", 0.4),
]


def triton(stack: ExitStack, folder: Path) -> tuple[Endpoint, dict[str, Any]]:
    """The real Triton with the small dense model."""
    from inferbench_tasks.backends import startup
    from inferbench_tasks.backends.base import BACKENDS, Deployment
    from inferbench_tasks.launchers import records
    from inferbench_tasks.launchers.base import LAUNCHERS
    from inferbench_tasks.submission.schema import ServeSpec
    from tests.serving_cases import dense_case

    case = dense_case(folder)
    server = folder / "server"
    server.mkdir()
    environments = Path(sys.prefix) / "inferbench-test-envs"
    spec = ServeSpec.model_validate({"backend": "triton", "batching": {"max_batch_size": 8}})
    deployment = Deployment("compare", case.model, spec, server, environments, protocol="grpc")
    stack.callback(records.end_run, folder / "servers", "compare")
    started = startup.start(
        BACKENDS.load("triton")(), deployment, LAUNCHERS.load("process")(), folder / "servers"
    )
    return started.endpoint, case.samples


def main() -> int:
    """Run and print; 1 if a gate failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--triton", action="store_true", help="also against a real Triton")
    options = parser.parse_args()
    seconds = options.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-compare-")))
        inputs = {"input": np.zeros((4, SIZE), np.float32)}
        first = {"input": inputs["input"][:1]}
        clients: dict[str, Callable[[], Measured]] = {}
        left_out: list[str] = []
        grpc = stack.enter_context(null_server("grpc"))
        message = kserve_grpc.encode_request(grpc, first)
        clients["ours grpc"] = lambda: ours(folder, grpc, inputs, seconds)
        clients["grpc.aio"] = lambda: ours(folder, grpc, inputs, seconds, "reference")
        if shutil.which("h2load"):
            clients["h2load"] = lambda: h2load(folder, grpc, message, seconds)
        else:
            left_out.append("h2load is not installed")
        if reason := nginx.missing():
            left_out.append(f"HTTP: {reason}")
        else:
            port = stack.enter_context(nginx.nginx(folder / "nginx", canned_bytes=64, inputs=SIZE))
            http = endpoint("http", port)
            wire = kserve_http.encode_request(http, first)
            clients["ours http"] = lambda: ours(folder, http, inputs, seconds)
            clients["aiohttp"] = lambda: ours(folder, http, inputs, seconds, "reference")
            if shutil.which("wrk"):
                clients["wrk"] = lambda: wrk(folder, http, wire, seconds)
            else:
                left_out.append("wrk is not installed")
            if shutil.which(os.environ.get("LOCUST", "locust")):
                clients["locust"] = lambda: locust(folder, http, wire, seconds)
            else:
                left_out.append("locust is not installed (LOCUST=...)")
        if options.triton:
            real, samples = triton(stack, folder)
            clients["ours triton"] = lambda: ours(folder, real, samples, seconds)
            clients["grpc.aio triton"] = lambda: ours(folder, real, samples, seconds, "reference")
            if os.environ.get("PERF_ANALYZER"):
                clients["perf_analyzer triton"] = lambda: perf_analyzer(real, seconds)
            else:
                left_out.append("perf_analyzer is not installed (PERF_ANALYZER=...)")
        rounds: list[dict[str, Measured]] = []
        paced: list[dict[float, tuple[float, float, float]]] = []
        for index in range(options.rounds):
            order = list(clients) if index % 2 == 0 else list(reversed(clients))
            rounds.append({name: clients[name]() for name in order})
            paced.append({rate: pacing(folder, grpc, rate, seconds) for rate in (500.0, 2000.0)})
            print(f"round {index + 1} of {options.rounds}", file=sys.stderr)
    return report(rounds, paced, left_out)


def report(
    rounds: list[dict[str, Measured]],
    paced: list[dict[float, tuple[float, float, float]]],
    left_out: list[str],
) -> int:
    """Print the clients, then the gates; 1 if one failed."""
    print(f"{'client':<24}{'requests/s by round':<48}{'median':>9}{'CPU us':>9}")
    for name in rounds[0]:
        each = [r[name] for r in rounds]
        values = " ".join(f"{m.rps:,.0f}" for m in each)
        middle = statistics.median(m.rps for m in each)
        cpu = statistics.median(m.cpu_us for m in each)
        print(f"{name:<24}{values:<48}{middle:>9,.0f}{cpu:>9.1f}")
    failed = 0
    print(f"\n{'gate':<56}{'bound':>9}{'median':>9}  verdict")
    for gate in GATES:
        sign = "<=" if gate.at_most else ">="
        bound = f"{sign} {gate.bound:g}x"
        if gate.over not in rounds[0] or gate.under not in rounds[0]:
            print(f"{gate.name:<56}{bound:>9}{'-':>9}  not measured")
            continue
        ratio = statistics.median(
            getattr(r[gate.over], gate.of) / getattr(r[gate.under], gate.of) for r in rounds
        )
        passed = ratio <= gate.bound if gate.at_most else ratio >= gate.bound
        failed += not passed
        print(f"{gate.name:<56}{bound:>9}{ratio:>8.2f}x  {'pass' if passed else 'FAIL'}")
    for rate in paced[0]:
        p50 = statistics.median(p[rate][0] for p in paced)
        p99 = statistics.median(p[rate][1] for p in paced)
        error = statistics.median(p[rate][2] for p in paced)
        for name, value, bound, text in (
            (f"send lateness p50 at {rate:g} requests/s (p99 {p99:,.0f} us)", p50, 100.0, "us"),
            (f"achieved-rate error at {rate:g} requests/s", error * 100, 0.5, "%"),
        ):
            failed += value > bound
            shown, limit = f"{value:.2f} {text}", f"<= {bound:g} {text}"
            print(f"{name:<56}{limit:>9} {shown:>9}  {'pass' if value <= bound else 'FAIL'}")
    for text in left_out:
        print(f"left out: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
