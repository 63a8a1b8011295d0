"""What it costs to watch a run: the web server's CPU, and the latencies of the load that is watched.

    python -m benchmarks.watching [--seconds 30] [--turns 60] [--turn-s 6]

First the real web application, in a process of its own, follows a run that tells its progress five times a second:
its CPU time as a share of one core without a watcher, with one and with ten (limit: 0.5% of a core for one, less what
it uses without any). Then one long load is watched and not watched, in turns (``--turns``): the ratio of the p99 of all
requests of the turns with a watcher to that of the others, with a 95% interval (bootstrap over the pairs of turns that
follow each other). One load, for a server started anew differs by more than a watcher could make; constant arrivals,
for a queue that a random burst makes would hide the rest. Exit code 1 if the limit is not kept, or if the interval
lies above 1.01.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import psutil
from numpy.typing import NDArray

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.invocation import Invocation

LIMIT_SHARE, LIMIT_RATIO = 0.005, 1.01
#: At the beginning of a turn, which does not count.
SETTLE_S = 0.5
RESAMPLED = 1000
JOB: dict[str, Any] = {"name": "watched", "model": {"kind": "zoo", "name": "digits"}}
SUBMISSION = """name: watched
model: {{kind: zoo, name: digits}}
convert: {{format: onnx}}
serve: {{backend: onnxruntime, threads: 1}}
load: {{arrivals: {{kind: constant, rate_rps: 500}}, duration_s: {duration_s}, warmup_s: 1, wait_for_quiet_s: 0}}
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


@dataclass(frozen=True)
class Turn:
    """Of the load, while it was watched or not. Nanoseconds of the monotonic clock."""

    watched: bool
    start_ns: int
    end_ns: int


def taken_in_turns(
    url: str, db: PerfDB, data_dir: Path, submission: Path, seconds: float
) -> tuple[str, list[Turn]]:
    """Run it, watched for so many seconds and not for as many (watched, not, not, watched, ...); its id, the turns."""
    invocations = data_dir / "invocations"
    before = {path.name for path in invocations.iterdir()}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", "--inline", str(submission)]
    env = {**os.environ, settings.DATA_DIR: str(data_dir), MODE: "note"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new: set[str] = set()
    while not new and process.poll() is None:
        time.sleep(0.1)
        new = {path.name for path in invocations.iterdir()} - before
    run_id, turns = f"{new.pop()}.000", []
    events = 0
    for watched in itertools.cycle((True, False, False, True)):
        with ExitStack() as stack:
            came = stack.enter_context(watcher(url, run_id)) if watched else []
            time.sleep(SETTLE_S)  # a watcher's first look reads more
            began = time.monotonic_ns()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=seconds)
            turns.append(Turn(watched, began, time.monotonic_ns()))
            events += came.count("now")
        if process.poll() is not None:
            break
    assert events, "the watcher saw nothing"
    return run_id, turns


def latencies_ms(db: PerfDB, run_id: str, turns: list[Turn]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Of each two turns that follow each other, within the measured window: alone and watched."""
    (result,) = db.find_results({"run_id": run_id}, limit=1)
    samples = db.samples(run_id, result.attempt)
    window = result.extensions["measured_window"]
    intended, done = (samples[name].to_numpy() for name in ("intended_ns", "done_ns"))
    pairs = []
    for first, second in zip(turns[::2], turns[1::2], strict=False):
        if first.start_ns < window["start_ns"] or second.end_ns > window["end_ns"]:
            continue
        of = {
            turn.watched: (done - intended)[(intended >= turn.start_ns) & (intended < turn.end_ns)] / 1e6
            for turn in (first, second)
        }
        pairs.append((of[False], of[True]))
    return pairs


def ratio(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], percentile: float) -> float:
    """Of the percentile of all that was watched to that of all that was not."""
    alone, watched = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return float(np.percentile(watched, percentile) / np.percentile(alone, percentile))


def beside(url: str, db: PerfDB, data_dir: Path, turns: int, seconds: float) -> bool:
    """Whether a watcher's p99 may be within 1% of the other's."""
    submission = data_dir / "watched.yaml"
    submission.write_text(SUBMISSION.format(duration_s=math.ceil((turns + 1) * (seconds + SETTLE_S + 1))))
    run_id, taken = taken_in_turns(url, db, data_dir, submission, seconds)
    pairs = latencies_ms(db, run_id, taken)
    rng = np.random.default_rng(0)
    for percentile in (50, 99):
        found = ratio(pairs, percentile)
        drawn = [
            ratio([pairs[at] for at in rng.integers(0, len(pairs), len(pairs))], percentile)
            for _ in range(RESAMPLED)
        ]
        low, high = np.percentile(drawn, [2.5, 97.5])
        print(f"p{percentile} watched ÷ alone: {found:.4f} (95%: {low:.4f} to {high:.4f})", flush=True)
    alone = np.concatenate([pair[0] for pair in pairs])
    print(f"{len(pairs)} pairs of turns of {seconds:g} s; {len(alone)} requests alone, ", end="")
    print(f"p99 {np.percentile(alone, 99):.3f} ms")
    word = "ok" if high <= LIMIT_RATIO else "TOO MUCH" if low > LIMIT_RATIO else "not decided"
    print(f"the p99's ratio is to be at most {LIMIT_RATIO}: {word}")
    return bool(low <= LIMIT_RATIO)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="for each number of watchers")
    parser.add_argument("--turns", type=int, default=60, help="with and without a watcher; 0: none")
    parser.add_argument("--turn-s", type=float, default=6, help="seconds of each")
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
                if options.turns:
                    kept = beside(url, db, data_dir, options.turns, options.turn_s) and kept
        finally:
            embedded.stop(data_dir)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
