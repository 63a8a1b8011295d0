"""Chaos: a whole local system at work while its processes are killed at random; then what must hold is checked.

    python -m benchmarks.chaos [--minutes 10] [--jobs 20] [--trainings 4] [--seed 1]

Every 10 to 30 s one of these gets kill -9: scheduler, dag-processor, both API servers, broker, mongod, a worker (its
agent; its Celery worker and their tasks die with it), a single task; of a training that runs, a rank, a loader process
of one, or torchrun. Jobs are submitted meanwhile, trainings of two devices with loader processes among them. At the
end: every job ended exactly once or says why it did not, no device was leased twice at any time (each scheduler's
event log is replayed), no server, no rank, no loader process and no shared memory of theirs is left, no killed run has
a result. Ends with 1 otherwise.

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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from inferbench_tasks import settings
from inferbench_tasks.training.result import TrainingResult
from tests.local_system import Driver, local_system, shared_memory, write_job, write_training

OF_TRAININGS = ("rank", "loader process", "torchrun")
PARTS = ("scheduler", "dag-processor", "api-server", "execution-api", "broker")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--trainings", type=int, default=4, help="of two devices each, beside the jobs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, help="a new folder for the system's data and logs, kept afterwards"
    )
    given = parser.parse_args()
    rng = random.Random(given.seed)
    jobs = [f"job-{i:02d}" for i in range(given.jobs)]
    trainings = [f"training-{i:02d}" for i in range(given.trainings)]
    names = jobs + trainings
    rng.shuffle(names)
    shared = shared_memory()

    def write(folder: Path) -> None:
        for name in jobs:
            write_job(folder, name, rng.choice((1.0, 2.0, 4.0)))
        for name in trainings:
            write_training(folder, name, samples=640, rounds=rng.choice((6, 12, 24)), workers=1)

    with ExitStack() as stack:
        folder = given.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-chaos-"))
        driver = stack.enter_context(local_system(Path(folder), write))
        victims = (*PARTS, "mongod", "worker", "task", *(OF_TRAININGS if trainings else ()))
        runs, killed = _torment(driver, names, victims, rng, given.minutes * 60)
        print(f"killed: {dict(killed)}; waiting for the jobs", flush=True)
        driver.ended(*runs.values(), timeout_s=1800)
        time.sleep(10)  # a job that is run again may look failed for a moment
        driver.ended(*runs.values(), timeout_s=1800)
        driver.all_is_well()
        wrong = [f"left: {' '.join(process.cmdline())[:200]}" for process in _of_trainings(driver)]
        wrong += [f"left in shared memory: {name}" for name in sorted(shared_memory() - shared)]
        return _judge(driver, {name: driver.state(run) for name, run in runs.items()}, wrong)


def _torment(
    driver: Driver, names: list[str], victims: Sequence[str], rng: random.Random, seconds: float
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
            victim = rng.choice(victims)
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
    if victim in OF_TRAININGS:
        return _kill_one(_of_trainings(driver, victim), rng)
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
    return _kill_one(found, rng)


def _kill_one(found: Sequence[psutil.Process], rng: random.Random) -> bool:
    if not found:
        return False
    try:
        rng.choice(found).kill()
    except psutil.NoSuchProcess:
        return False
    return True


def _of_trainings(driver: Driver, what: str = "") -> list[psutil.Process]:
    """Processes of this system's trainings, of one kind or of all: what a rank has forked has its command line."""
    mine, found = str(driver.system.data_dir), {}
    for process in psutil.process_iter(["pid", "ppid", "cmdline"]):
        command = " ".join(process.info["cmdline"] or [])
        if "inferbench_tasks.training.rank_main" in command and mine in command:
            found[process.pid] = process

    def kind(process: psutil.Process) -> str:
        if "torch.distributed.run" in process.info["cmdline"]:
            return "torchrun"
        parent = found.get(process.info["ppid"])
        of_rank = parent is not None and "torch.distributed.run" not in parent.info["cmdline"]
        return "loader process" if of_rank else "rank"

    return [process for process in found.values() if what in ("", kind(process))]


def _measured(driver: Driver, name: str) -> list[Any]:
    """What was measured of a job or a training."""
    if not name.startswith("training"):
        return driver.results(name)
    found = driver.db.results_of(TrainingResult, {"submission.name": name})
    return [result for result in found if result.verdict.measured]


def _judge(driver: Driver, states: dict[str, str], wrong: list[str]) -> int:
    for name, state in states.items():
        results = _measured(driver, name)
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
