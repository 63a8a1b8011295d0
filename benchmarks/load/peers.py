"""The peers as commands: what each one did, by its own account, and the CPU time that it took."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.contracts.handles import Endpoint

#: Requests under way at once, for every client.
USERS = 32
#: Over so many connections, for every gRPC client that lets one choose (perf_analyzer and wrk choose for themselves).
CONNECTIONS = 4


@dataclass(frozen=True)
class Measured:
    """One client in one round; ``cpu_us``: of the client alone, per request; ``server_cpu_us``: of the server."""

    rps: float
    cpu_us: float
    server_cpu_us: float | None = None


class PeerError(Exception):
    """A peer ended badly, or said what can't be understood."""


def command(arguments: list[str], env: dict[str, str] | None = None) -> tuple[str, float]:
    """What a program prints, and the CPU time that it used, s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        arguments, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}, timeout=120
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in (0, 1):
        raise PeerError(
            f"{arguments[0]} ended with {process.returncode}: {(process.stderr or process.stdout)[-500:]}"
        )
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return process.stdout + process.stderr, used


def number(pattern: str, text: str) -> float:
    """The number that a program's output names."""
    match = re.search(pattern, text)
    if not match:
        raise PeerError(f"no {pattern!r} in: {text[-800:]}")
    return float(match[1].replace(",", ""))


def wrk(folder: Path, where: Endpoint, wire: bytes, seconds: float) -> Measured:
    """Measure with wrk, of one thread."""
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
        raise PeerError(f"wrk: {text}")
    return Measured(
        number(r"Requests/sec:\s+([\d.]+)", text), cpu_s * 1e6 / number(r"(\d+) requests in", text)
    )


def h2load(folder: Path, where: Endpoint, wire: bytes, seconds: float) -> Measured:
    """h2load with as many connections as ours."""
    (folder / "message").write_bytes(wire)
    text, cpu_s = command(
        [
            "h2load", f"-c{CONNECTIONS}", f"-m{USERS // CONNECTIONS}", f"-D{seconds:.0f}",
            "-d", str(folder / "message"),
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
    """Measure with locust's FastHttpUser, in one process."""
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
    entries = json.loads(out[out.index("[") : out.rindex("]") + 1]) if "]" in out else []
    if len(entries) != 1:
        raise PeerError(f"locust sent no request: {out[-300:]}")
    (stats,) = entries
    if stats["num_failures"]:
        raise PeerError(f"locust: {stats['num_failures']} failures")
    span = max(0.5, stats["last_request_timestamp"] - stats["start_time"])
    return Measured(stats["num_requests"] / span, cpu_s * 1e6 / stats["num_requests"])


def perf_analyzer(
    where: Endpoint, seconds: float, users: int = USERS, output_bytes: int | None = None
) -> Measured:
    """perf_analyzer --async over gRPC, the mean of its three windows, which take ``seconds`` together.

    It gives up when a window is too short for it; then it gets longer ones. ``output_bytes``: with its shared memory,
    in which it has inputs and outputs of at most so many bytes each; None: without.
    """
    load = ["--concurrency-range", str(users)]
    if output_bytes is not None:
        load += ["--shared-memory", "system", "--output-shared-memory-size", str(output_bytes)]
    for times in (1, 2, 4):
        try:
            text, cpu_s = command(*perf_analyzer_command(where, seconds * times, load))
        except PeerError:
            if times == 4:
                raise
        else:
            break
    count = number(r"Request count: (\d+)", text)
    return Measured(number(r"Throughput: ([\d.]+) infer/sec", text), cpu_s * 1e6 / max(1.0, count))


def perf_analyzer_command(
    where: Endpoint, seconds: float, load: list[str]
) -> tuple[list[str], dict[str, str]]:
    """Its command and what it needs of the environment; three windows are the fewest that it takes."""
    binary = os.environ["PERF_ANALYZER"]
    site = Path(binary).resolve().parent.parent / "lib"
    cuda = next(iter(site.rglob("libcudart.so.12")), None)
    env = {"LD_LIBRARY_PATH": str(cuda.parent)} if cuda else {}
    arguments = [
        binary, "-m", where.model_name, "-u", where.url, "-i", "grpc", "--async", *load,
        "--measurement-interval", str(round(seconds / 3 * 1000)), "-s", "999", "--max-trials", "3",
    ]  # fmt: skip
    return arguments, env
