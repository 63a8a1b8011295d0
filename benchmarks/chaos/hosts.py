"""Faults of hosts and of the network between them, one after the other, amid jobs; then what must hold is checked.

    python -m benchmarks.chaos.hosts [--faults 50] [--minutes M] [--seed 1] [--only FAULT] [--rows FILE]

A leader and two hosts that joined it by tokens, each a network namespace with an address, a clock, a core and a data
directory of its own (a file system of 1 GB). In each round something is submitted (a sweep of two jobs, a load from the
other host, a training on both), something happens to a host at a random moment of it, and once that is over the job has
to come to its end: exactly once, with one result for each job that succeeded and none for one that did not, all answers
right, every request that was to be sent in it; no lease, no server and no rank left on any host.

Kinds of faults come in turns, each time in another order. A row for each is appended to a file of JSON lines as it
ends; the table tells all of this seed. Ends with 1 where something did not hold, with 2 where nothing could be done.
Needs root. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.chaos.host_faults import FAULTS, missing
from inferbench_tasks.training.result import TrainingResult
from tests.joined_hosts import Joined, joined_hosts

NAMES = ("host-a", "host-b")
HOST_BYTES = "1g"
RATE_RPS, SECONDS = 30, 6
#: A job that is run again may look failed for a moment.
SETTLED_S = 8.0
_LOAD = f"arrivals: {{kind: constant, rate_rps: {RATE_RPS}}}, duration_s: {SECONDS}, warmup_s: 0.5, wait_for_quiet_s: 0"
WORK = {
    "sweep": f"""
model: {{kind: zoo, name: digits}}
load: {{{_LOAD}}}
sweep: {{serve.threads: [1, 2]}}
""",
    "away": f"""
model: {{kind: zoo, name: digits}}
load: {{{_LOAD}, from: other_host}}
""",
    "training": """
kind: training
data: {kind: digits, samples: 480}
train: {batch_size: 16, warmup_steps: 4, rounds: 8}
devices: {count: 2, hosts: 2, strategy: ddp}
""",
}
JOBS = {"sweep": 2, "away": 1, "training": 1}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--minutes", type=float, help="begin no round after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=FAULTS, action="append", help="these kinds alone (repeat it)")
    parser.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "chaos-hosts.jsonl")
    parser.add_argument("--keep", type=Path, help="a new folder for data and logs, kept afterwards")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    plan = planned(given.only or list(FAULTS), given.faults, rng)
    for name in sorted({name for name, _ in plan}):
        if reason := missing(name):
            print(f"{name}: not done here, it {reason}")
    plan = [(name, work) for name, work in plan if not missing(name)]
    started_s, rows = time.monotonic(), []
    with ExitStack() as stack:
        folder = given.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-hosts-"))
        base = Path(folder)
        base.mkdir(exist_ok=True)
        stack.enter_context(own_disks(base))

        def write(submissions: Path) -> None:
            for at, (_, work) in enumerate(plan):
                (submissions / f"{dag(at)}.yaml").write_text(f"name: {dag(at)}\n{WORK[work].lstrip()}")

        try:
            joined = stack.enter_context(joined_hosts(base, NAMES, write))
        except pytest.skip.Exception as reason:
            print(f"not done here: {reason}")
            return 2
        for at, (name, work) in enumerate(plan):
            if given.minutes and time.monotonic() - started_s > 60 * given.minutes:
                break
            row = {
                "seed": given.seed,
                "at": at,
                "fault": name,
                "work": work,
                **fault(joined, at, name, work, rng),
            }
            rows.append(row)
            with given.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(said(row), flush=True)
    wrong = [row for row in rows if row["wrong"]]
    print(
        f"seed {given.seed}: {len(rows)} of {len(plan)} faults, {len(wrong)} after which something did not hold"
    )
    return 1 if wrong or not rows else 0


def planned(kinds: Sequence[str], count: int, rng: random.Random) -> list[tuple[str, str]]:
    """Kind and what runs meanwhile, of each round."""
    plan: list[tuple[str, str]] = []
    while len(plan) < count:
        plan += [(name, rng.choice(list(WORK))) for name in rng.sample(list(kinds), len(kinds))]
    return plan[:count]


def dag(at: int) -> str:
    """The name of a round's submission."""
    return f"round-{at:03d}"


def said(row: dict[str, Any]) -> str:
    """A line of the table."""
    word = "; ".join(row["wrong"]) if row["wrong"] else "ok"
    return (
        f"{row['at']:3} {row['fault']:16} {row['work']:9} {row['done']:60} {row['state']:8} {row['results']} result(s) "
        f"after {row['ended_s']:5.0f} s: {word}"
    )


def fault(joined: Joined, at: int, name: str, work: str, rng: random.Random) -> dict[str, Any]:
    """One round: what was done, how the job ended, and what did not hold."""
    host, began_s = rng.choice(joined.hosts), time.monotonic()
    run = joined.driver.trigger(dag(at))
    joined.driver.until(lambda: begun(joined, run), "nothing began", 120)
    wait_s = rng.uniform(0, 12)
    time.sleep(wait_s)
    with FAULTS[name](joined, host, rng) as done:
        state = ended(joined, run)
    ended_s = time.monotonic() - began_s
    wrong, results = judged(joined, at, work, state)
    return {"host": host.name, "wait_s": wait_s, "done": done, "state": state, "results": results, "ended_s": ended_s,
            "wrong": wrong}  # fmt: skip


def begun(joined: Joined, run: str) -> bool:
    """Whether a stage of it runs, or ran."""
    found = joined.driver.api("GET", f"{run}/taskInstances").json()["task_instances"]
    return any(task["state"] in ("running", "success") for task in found)


def ended(joined: Joined, run: str) -> str:
    """Its state once it stays so."""
    while True:
        (state,) = joined.driver.ended(run, timeout_s=600)
        time.sleep(SETTLED_S)
        if joined.driver.state(run) == state:
            return state


def judged(joined: Joined, at: int, work: str, state: str) -> tuple[list[str], int]:
    """What did not hold, and how many results there are."""
    wrong: list[str] = []
    if work == "training":
        found = joined.driver.db.results_of(TrainingResult, {"submission.name": dag(at)})
        results: list[Any] = [result for result in found if result.verdict.measured]
    else:
        results = joined.driver.results(dag(at))
        for result in results:
            summary = result.summary.model_dump()
            requests = summary["e2e_latency_ms"]["count"]
            if result.verdict.kind == "valid" and (summary["error_ratio"] or requests != RATE_RPS * SECONDS):
                wrong.append(f"valid with {requests} requests, {summary['error_ratio']:.1%} of them failed")
    jobs = {result.job_id for result in results}
    if len(jobs) != len(results):
        wrong.append(f"{len(results)} results of {len(jobs)} job(s)")
    if state == "success" and len(results) != JOBS[work]:
        wrong.append(f"success with {len(results)} result(s)")
    if state == "failed" and len(results) >= JOBS[work]:
        wrong.append(f"failed with {len(results)} result(s)")
    for check in (joined.driver.all_is_well, lambda: nothing_left(joined)):
        try:
            check()
        except AssertionError as error:
            wrong.append(str(error).splitlines()[0][:300])
    return wrong, len(results)


def nothing_left(joined: Joined) -> None:
    """Of any run, on any host."""

    def left() -> list[str]:
        homes = [str(host.home) for host in joined.hosts]
        words = ("inferbench_tasks.servers.main", "inferbench_tasks.training.rank_main")
        lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
        return [
            line for line in lines if any(w in line for w in words) and any(home in line for home in homes)
        ]

    joined.driver.until(lambda: not left(), lambda: f"left: {left()}", 60)


@contextmanager
def own_disks(base: Path) -> Iterator[None]:
    """A small file system for each host's data directory."""
    mounted: list[Path] = []
    try:
        for name in NAMES:
            (base / name).mkdir()
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={HOST_BYTES},mode=0700", "tmpfs", str(base / name)],
                check=True,
            )
            mounted.append(base / name)
        yield
    finally:
        for path in mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False)


if __name__ == "__main__":
    sys.exit(main())
