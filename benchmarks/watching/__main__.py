"""What it costs to watch a run: the web server's CPU, and the latencies of the load that is watched.

    python -m benchmarks.watching [--seconds 30] [--pairs 5]

First the real web application, in a process of its own, follows a run that tells its progress five times a second:
its CPU time as a share of one core without a watcher, with one and with ten (limit: 0.5% of a core for one, less what
it uses without any). Then a submission is run by itself and with a watcher, in turns (``--pairs``): the ratio of its
p99, with a 95% interval of the geometric mean over the pairs (Student's law). Exit code 1 if the limit is not kept, or
if the interval lies above 1.01.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.invocation import Invocation

LIMIT_SHARE, LIMIT_RATIO = 0.005, 1.01
JOB: dict[str, Any] = {"name": "watched", "model": {"kind": "zoo", "name": "digits"}}
SUBMISSION = """name: watched
model: {kind: zoo, name: digits}
convert: {format: onnx}
serve: {backend: onnxruntime, threads: 1}
load: {arrivals: {kind: poisson, rate_rps: 200}, duration_s: 10, warmup_s: 1, wait_for_quiet_s: 0}
"""


def serve(port: int) -> None:
    """The web application alone, without a login; until SIGTERM."""
    import uvicorn
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI

    from inferbench_tasks.provider.api.access import READER, may_change, sees_logs
    from inferbench_tasks.provider.api.app import app

    app.dependency_overrides |= {
        READER.dependency: lambda: None,
        get_user: lambda: SimpleNamespace(get_name=lambda: "watcher"),
        sees_logs: lambda: True,
        may_change: lambda: lambda dag_id: False,
    }
    outer = FastAPI()
    outer.mount("/inferbench", app)
    uvicorn.run(outer, host="127.0.0.1", port=port, log_level="warning")


@contextmanager
def server(data_dir: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Its address and process; ended with a watcher still there, which must not hold it up."""
    from inferbench_tasks.provider.system.local import free_port

    port = free_port()
    command = [sys.executable, "-m", "benchmarks.watching", "--serve", str(port)]
    process = subprocess.Popen(command, env={**os.environ, settings.DATA_DIR: str(data_dir)})
    url = f"http://127.0.0.1:{port}/inferbench"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                httpx.get(f"{url}/static/live.js", timeout=5).raise_for_status()
                break
            except httpx.HTTPError:
                assert process.poll() is None and time.monotonic() < deadline, (
                    "the web application did not start"
                )
                time.sleep(0.2)
        yield url, psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@contextmanager
def watcher(url: str, run_id: str) -> Iterator[list[str]]:
    """Follows the run until the block ends; the events that came."""
    came: list[str] = []
    ends = threading.Event()

    def follow() -> None:
        while not ends.is_set():
            try:
                with httpx.stream("GET", f"{url}/api/runs/{run_id}/live", timeout=10) as answer:
                    for line in answer.iter_lines():
                        if line.startswith("event: "):
                            came.append(line[7:])
                        if ends.is_set() or line == "event: end":
                            return
            except httpx.HTTPError:
                time.sleep(0.2)  # the server ends, or the run is not known yet

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield came
    finally:
        ends.set()
        thread.join(timeout=20)


def share(process: psutil.Process, seconds: float) -> float:
    """CPU time of that process over so many seconds, as a share of one core."""
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    return float(sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)


def cpu(url: str, process: psutil.Process, db: PerfDB, data_dir: Path, seconds: float) -> bool:
    """Whether one watcher's share is within the limit; printed with those of none and ten."""
    run_id = "watched-1.000"
    (data_dir / "invocations" / "watched-1").mkdir(parents=True)
    invocation = Invocation.at(data_dir / "invocations" / "watched-1")
    db.start_run(run_id, "watched-1", "watched", JOB)
    db.stage_started(run_id, "load")
    log = data_dir / "runs" / run_id / "server" / "server.log"
    log.parent.mkdir(parents=True)
    ends = threading.Event()

    def tell() -> None:
        began = time.time()
        with log.open("a") as file:
            while not ends.wait(0.2):
                done = time.time() - began
                said = Snapshot(int(done * 200), 0, 200.0, 2.0 + done % 1, 4.0 + done % 3, 3, late_p99_ms=0.2)
                invocation.tell(
                    event="progress",
                    stage="load",
                    job=0,
                    done=done,
                    total=3600.0,
                    text=f"measuring: {said.text()}",
                )
                print(f"answered {done:.1f}", file=file, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    shares = {}
    for watchers in (0, 1, 10):
        with ExitStack() as stack:
            came = [stack.enter_context(watcher(url, run_id)) for _ in range(watchers)]
            time.sleep(3)  # their first look reads more
            shares[watchers] = share(process, seconds)
            told = sum(len(of) for of in came)
        print(f"{watchers:>3} watchers: {shares[watchers]:.2%} of a core, {told} events", flush=True)
    ends.set()
    teller.join()
    cost = shares[1] - shares[0]
    kept = cost <= LIMIT_SHARE
    print(
        f"one watcher costs {cost:.2%} of a core (limit {LIMIT_SHARE:.1%}): {'ok' if kept else 'TOO MUCH'}\n"
    )
    return kept


def p99_ms(data_dir: Path, db: PerfDB, submission: Path, url: str | None) -> float:
    """Of one run of the submission, with a watcher of it at ``url``."""
    before = {path.name for path in (data_dir / "invocations").iterdir()}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", "--inline", str(submission)]
    env = {**os.environ, settings.DATA_DIR: str(data_dir), MODE: "note"}
    with ExitStack() as stack:
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        new: set[str] = set()
        while not new and process.poll() is None:
            time.sleep(0.1)
            new = {path.name for path in (data_dir / "invocations").iterdir()} - before
        run_id = f"{new.pop()}.000"
        came = stack.enter_context(watcher(url, run_id)) if url else None
        process.wait()
        assert came is None or "now" in came, "the watcher saw nothing"
    (result,) = db.find_results({"run_id": run_id}, limit=1)
    latency = db.samples(run_id, result.attempt)
    window = result.extensions["measured_window"]
    values = sorted(
        (done - intended) / 1e6
        for intended, done in zip(
            latency["intended_ns"].to_pylist(), latency["done_ns"].to_pylist(), strict=True
        )
        if window["start_ns"] <= intended < window["end_ns"]
    )
    return float(values[math.ceil(0.99 * len(values)) - 1])


def beside(url: str, db: PerfDB, data_dir: Path, pairs: int) -> bool:
    """Whether a watcher's p99 may be within 1% of the other's; printed pair by pair."""
    submission = data_dir / "watched.yaml"
    submission.write_text(SUBMISSION)
    p99_ms(data_dir, db, submission, None)  # makes the model
    logs = []
    for pair in range(pairs):
        watched_first = pair % 2 == 0
        first, second = (
            p99_ms(data_dir, db, submission, url if watched else None)
            for watched in (watched_first, not watched_first)
        )
        watched, alone = (first, second) if watched_first else (second, first)
        logs.append(math.log(watched / alone))
        print(f"pair {pair + 1}: p99 {alone:.2f} ms alone, {watched:.2f} ms watched", flush=True)
    if pairs < 2:
        return True
    from scipy.stats import t

    mean = statistics.fmean(logs)
    reach = float(t.ppf(0.975, pairs - 1)) * statistics.stdev(logs) / math.sqrt(pairs)
    low, high = math.exp(mean - reach), math.exp(mean + reach)
    print(
        f"watched ÷ alone: {math.exp(mean):.3f} (95%: {low:.3f} to {high:.3f}), to be at most {LIMIT_RATIO}"
    )
    if low <= LIMIT_RATIO < high:
        print(
            "that says neither that it is more nor that it is not: more pairs, or a quieter machine, would tell"
        )
    return low <= LIMIT_RATIO


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="for each number of watchers")
    parser.add_argument("--pairs", type=int, default=5, help="of runs with and without a watcher; 0: none")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        try:
            with PerfDB.connect(None, data_dir) as db, server(data_dir) as (url, process):
                kept = cpu(url, process, db, data_dir, options.seconds)
                kept = (not options.pairs or beside(url, db, data_dir, options.pairs)) and kept
        finally:
            embedded.stop(data_dir)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
