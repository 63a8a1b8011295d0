"""Attack: a real local system measures something while other logins, and who has none, do what they can to stop it.

    python -m benchmarks.chaos.attack [--seconds 60] [--drain-minutes 10] [--keep FOLDER]

At once, on loopback, while the benchmark of ``configs/submissions/quickstart.yaml`` runs: queries that backtrack,
300 submissions of one submitter, bodies of 200 MB with and without a length, connections that send a byte a second,
guesses at logins. Printed at the end: what became of the benchmark, how long a task would have waited for the
execution API, each attacker's answers, the memory of the API servers, what became of the accepted submissions. Ends
with 1 unless the benchmark is valid or says why not, the execution API answered within a second, and no job is lost:
each accepted submission has ended well, or still waits or runs when ``--drain-minutes`` are over.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import psutil

from benchmarks.chaos.attackers import ATTACKERS, PATIENCE_S, Attack
from inferbench_tasks.provider.system.config import EXECUTION_URL
from tests.local_system import ROOT, Driver, local_system

QUICK = ROOT / "configs" / "submissions" / "quickstart.yaml"
MAX_ANSWER_S = 1.0
#: Of a submission that was accepted: how it may be found.
ENDED, WAITS = ("success",), ("queued", "running", "scheduled")


def watch(attack: Attack) -> None:
    """Ask the execution API as tasks do, and its health; look at the memory of both servers."""
    servers = [psutil.Process(attack.driver.pid(name)) for name in ("api-server", "execution-api")]
    url = attack.driver.system.environment()[EXECUTION_URL].removesuffix("/execution/")
    token, run = _task_token(attack), quote(attack.tokens["run"], safe="")
    path = f"/execution/dag-runs/quickstart/{run}/state"
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        while not attack.over.wait(0.1):
            for name, target, headers in (
                ("execution API, a task's question", path, {"Authorization": f"Bearer {token}"}),
                ("execution API, health", "/execution/health", {}),
            ):
                began_s = time.monotonic()
                try:
                    status = str(client.get(target, headers=headers).status_code)
                except httpx.TransportError as error:
                    status = type(error).__name__
                attack.waits_s.setdefault(name, []).append(time.monotonic() - began_s)
                attack.note(name, status)
            family = [p for server in servers for p in (server, *server.children(recursive=True))]
            with suppress(psutil.Error):
                attack.peak_bytes = max(attack.peak_bytes, sum(p.memory_info().rss for p in family))


def _task_token(attack: Attack) -> str:
    """A token as the scheduler gives a task, by the secret of this system."""
    import jwt

    variables = attack.driver.system.environment()
    now = int(time.time())
    claims = {
        "jti": uuid.uuid4().hex, "sub": str(uuid.uuid4()), "scope": "execution", "aud": "urn:airflow.apache.org:task",
        "iat": now, "nbf": now, "exp": now + 3600,
    }  # fmt: skip
    return jwt.encode(
        claims, variables["AIRFLOW__API_AUTH__JWT_SECRET"], algorithm="HS512", headers={"kid": "not-used"}
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long the attack goes on, at most 180"
    )
    parser.add_argument(
        "--drain-minutes", type=float, default=10.0, help="how long to wait for what was accepted"
    )
    parser.add_argument(
        "--keep", type=Path, help="a new folder for the system's data and logs, kept afterwards"
    )
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-attack-"))
        Path(folder).mkdir(parents=True, exist_ok=True)
        driver = stack.enter_context(
            local_system(Path(folder), lambda target: shutil.copy(QUICK, target), interference="")
        )
        tokens = {login: driver.system.token(login) for login in ("admin", "viewer", "submitter")}
        attack = Attack(driver, tokens)
        run = driver.trigger("quickstart")
        tokens["run"] = run.rpartition("/")[2]
        _quiet(attack)
        driver.until(lambda: _running(driver, run, "load"), "no load began", 240)
        _fight(attack, min(options.seconds, 180.0))
        driver.until(
            lambda: driver.state(run) in ("success", "failed"), "the benchmark did not end", 600, every_s=1
        )
        faults = _benchmark(attack, run) + _answers(attack) + _accepted(attack, options.drain_minutes * 60)
        alive = {process.name for process in driver.system.running()}
        print(f"still up: {', '.join(sorted(alive))}")
        for line in faults:
            print(f"FAILED {line}")
        return 1 if faults else 0


def _quiet(attack: Attack) -> None:
    """How long answers take before the attack, beside the benchmark's first stages."""
    watcher = threading.Thread(target=watch, args=(attack,))
    watcher.start()
    time.sleep(5)
    attack.over.set()
    watcher.join()
    print(
        f"before the attack, {_machine()}; API servers {attack.peak_bytes / 2**20:.0f} MiB\n{_waits(attack)}",
        flush=True,
    )
    attack.over.clear()
    attack.waits_s.clear()
    attack.answers.clear()


def _fight(attack: Attack, seconds: float) -> None:
    threads = [threading.Thread(target=act, args=(attack,), daemon=True) for act in (watch, *ATTACKERS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    attack.over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    print(f"at the end of the attack of {seconds:g} s, {_machine()}", flush=True)


def _running(driver: Driver, run: str, stage: str) -> bool:
    """Whether a stage of any of a run's jobs runs."""
    instances = driver.api("GET", f"{run}/taskInstances").json()["task_instances"]
    return any(t["task_id"].endswith(f".{stage}") and t["state"] == "running" for t in instances)


def _machine() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


def _waits(attack: Attack) -> str:
    lines = []
    for name, waits_s in sorted(attack.waits_s.items()):
        p50_ms, p99_ms, max_ms = np.quantile(waits_s, (0.5, 0.99, 1.0), method="higher") * 1e3
        lines.append(
            f"  {name}: {len(waits_s)} answers, p50 {p50_ms:.0f} ms, p99 {p99_ms:.0f} ms, max {max_ms:.0f} ms"
        )
    return "\n".join(lines)


def _benchmark(attack: Attack, run: str) -> list[str]:
    """What became of it; what is wrong with that."""
    driver = attack.driver
    runs = driver.db.find_runs({"submission.name": "quickstart"})
    print(f"the benchmark: DAG run {driver.state(run)}; its runs:")
    for document in runs:
        print(f"  {document.said}")
    if len(runs) == 2 and all(document.verdict is not None for document in runs):
        return []
    return [f"the benchmark has {len(runs)} runs, of which 2 should have a verdict"]


def _answers(attack: Attack) -> list[str]:
    """What everybody was answered; what is wrong with that."""
    print(
        f"meanwhile:\n{_waits(attack)}\n  the API servers' memory: {attack.peak_bytes / 2**20:.0f} MiB at most"
    )
    faults = [
        f"{name}: {max(waits_s):.2f} s, at most {MAX_ANSWER_S:g} s"
        for name, waits_s in attack.waits_s.items()
        if max(waits_s) > MAX_ANSWER_S
    ]
    for who, answers in sorted(attack.answers.items()):
        print(f"  {who}: {dict(answers.most_common())}")
        # 503 asks an attacker to come back; a task has to get its answer.
        faults += [
            f"{who}: {count} x {answer}"
            for answer, count in answers.items()
            if (answer != "200" if who in attack.waits_s else answer.startswith("5") and answer != "503")
        ]
    return faults


def _accepted(attack: Attack, patience_s: float) -> list[str]:
    """What became of the submissions that were accepted; those that are lost."""
    deadline_s = time.monotonic() + patience_s
    states = Counter(_state(attack.driver, run) for run in attack.accepted)
    while any(states[state] for state in WAITS) and time.monotonic() < deadline_s:
        time.sleep(10)
        states = Counter(_state(attack.driver, run) for run in attack.accepted)
    print(f"accepted submissions: {len(attack.accepted)}, as Airflow sees them: {dict(states)}")
    lost = sum(count for state, count in states.items() if state not in (*ENDED, *WAITS))
    return [f"{lost} accepted submissions are lost: {dict(states)}"] if lost else []


def _state(driver: Driver, run: str) -> str:
    answer = driver.api("GET", f"/dags/submit/dagRuns/{quote(run, safe='')}")
    return str(answer.json()["state"]) if answer.status_code == 200 else "unknown"


if __name__ == "__main__":
    sys.exit(main())
