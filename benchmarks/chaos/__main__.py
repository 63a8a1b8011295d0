"""Chaos: a whole local system at work while its processes are killed at random; then what must hold is checked.

    python -m benchmarks.chaos [--minutes 10] [--jobs 20] [--seed 1]

Every 10 to 30 s one of these gets kill -9: scheduler, dag-processor, both API servers, broker, mongod, a worker (its
agent; its Celery worker and their tasks die with it), a single task. Jobs are submitted meanwhile. At the end: every
job ended exactly once or says why it did not, no device was leased twice at any time (each scheduler's event log is
replayed), no server is left, no killed run has a result. Ends with 1 otherwise.

Everything runs on loopback, in a temporary folder; only processes of this system are killed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psutil

from inferbench_tasks import settings
from tests.local_system import Driver, local_system, write_job

PARTS = ("scheduler", "dag-processor", "api-server", "execution-api", "broker")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, help="a new folder for the system's data and logs, kept afterwards"
    )
    given = parser.parse_args()
    rng = random.Random(given.seed)
    names = [f"job-{i:02d}" for i in range(given.jobs)]

    def write(folder: Path) -> None:
        for name in names:
            write_job(folder, name, rng.choice((1.0, 2.0, 4.0)))

    with ExitStack() as stack:
        folder = given.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-chaos-"))
        driver = stack.enter_context(local_system(Path(folder), write))
        runs, killed = _torment(driver, names, rng, given.minutes * 60)
        print(f"killed: {dict(killed)}; waiting for the jobs", flush=True)
        driver.ended(*runs.values(), timeout_s=1800)
        time.sleep(10)  # a job that is run again may look failed for a moment
        driver.ended(*runs.values(), timeout_s=1800)
        driver.all_is_well()
        return _judge(driver, {name: driver.state(run) for name, run in runs.items()})


def _torment(
    driver: Driver, names: list[str], rng: random.Random, seconds: float
) -> tuple[dict[str, str], Counter[str]]:
    end = time.monotonic() + seconds
    gap_s = seconds / max(1, len(names))
    runs: dict[str, str] = {}
    killed: Counter[str] = Counter()
    next_job = next_kill = time.monotonic()
    next_kill += 20
    while time.monotonic() < end or len(runs) < len(names):
        now = time.monotonic()
        if len(runs) < len(names) and now >= next_job:
            name = names[len(runs)]
            runs[name] = driver.trigger(name)
            next_job = now + gap_s * 0.8
        if now >= next_kill and now < end:
            victim = rng.choice((*PARTS, "mongod", "worker", "task"))
            if _kill(driver, victim, rng):
                killed[victim] += 1
                print(f"{time.strftime('%H:%M:%S')} killed {victim}", flush=True)
            next_kill = now + rng.uniform(10, 30)
        time.sleep(0.5)
    return runs, killed


def _kill(driver: Driver, victim: str, rng: random.Random) -> bool:
    if victim in PARTS:
        driver.kill(victim)
        return True
    if victim == "worker":
        driver.kill(rng.choice([p.name for p in driver.system.running() if p.name.startswith("worker-cpu")]))
        return True
    wanted = str(driver.system.data_dir / "perfdb" / "db") if victim == "mongod" else "airflow worker"
    found = [
        p
        for p in psutil.process_iter(["cmdline", "environ"])
        if wanted in " ".join(p.info["cmdline"] or [])
        and p.pid != os.getpid()
        and (
            victim == "mongod"
            or (p.info["environ"] or {}).get(settings.DATA_DIR) == str(driver.system.data_dir)
        )
    ]
    if not found:
        return False
    try:
        rng.choice(found).kill()
    except psutil.NoSuchProcess:
        return False
    return True


def _judge(driver: Driver, states: dict[str, str]) -> int:
    wrong = []
    for name, state in states.items():
        results = driver.results(name)
        runs = driver.db.find_runs({"submission.name": name})
        verdicts = [r.said for r in runs]
        if state != "success":
            print(f"{name}: {state}; verdicts {verdicts or 'none: no attempt began'}")
        if state == "success" and len(results) != 1:
            wrong.append(f"{name}: success with {len(results)} results")
        if state == "failed" and (
            results or any(r.verdict is None or r.verdict.kind != "failed" for r in runs)
        ):
            wrong.append(f"{name}: failed, verdicts {verdicts}, {len(results)} results")
    print(f"{Counter(states.values())}; {len(wrong)} wrong")
    for line in wrong:
        print(f"WRONG {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
