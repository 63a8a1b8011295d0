"""A real system whose only device is a worker with a data directory of its own, which does not see the leader's.

    python -m benchmarks.artifacts.two_hosts FOLDER

Linux, as root: the worker runs in a mount namespace in which the leader's data directory is an empty file system.
Airflow, broker, PerfDB, keeper and host worker are those of ``inferbench up``; the worker is ``inferbench worker``. The
first job is made before the worker joins, the second after it. One line of JSON for each job.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.stores.holdings import FETCHED
from inferbench_tasks.stores.ledger import Ledger
from inferbench_tasks.workers.checks import BUSY
from inferbench_tasks.workers.devices import partitions

ENDED = ("success", "failed")
ROOT = Path(__file__).parents[2]
JOB = """
name: {name}
model: {{kind: zoo, name: digits}}
load: {{arrivals: {{kind: poisson, rate_rps: 50}}, duration_s: 5, warmup_s: 0.5, wait_for_quiet_s: 0, seed: {seed}}}
"""


def worker(folder: Path, variables: dict[str, str], uri: str, device: str) -> subprocess.Popen[bytes]:
    """The worker, in a mount namespace of its own."""
    home = folder / "worker"
    env = os.environ | variables | {
        settings.DATA_DIR: str(home), settings.PERFDB_URI: uri, "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "airflow" / "logs"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow/none.db",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "none"),
    }  # fmt: skip
    (home / "airflow").mkdir(parents=True, exist_ok=True)
    serve = [sys.executable, "-m", "inferbench_tasks.cli.main", "worker", "--device", device]
    hidden = shlex.quote(str(folder / "leader"))
    script = f'mount -t tmpfs -o mode=0700 none {hidden} && test -z "$(ls -A {hidden})" && exec {shlex.join(serve)}'
    log = open(folder / "worker.log", "ab")  # noqa: SIM115 - the child's
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], env=env, stdout=log, stderr=log, cwd=home
    )


def api(system: LocalSystem, method: str, path: str, **more: Any) -> Any:
    """Airflow's answer, as JSON; None for what it does not know yet."""
    import httpx

    answer = httpx.request(
        method,
        f"{system.url()}/api/v2{path}",
        headers={"Authorization": f"Bearer {system.token()}"},
        timeout=60,
        **more,
    )
    return answer.json() if answer.status_code == 200 else None


def until(check: Any, what: str, timeout_s: float = 300.0) -> Any:
    """What ``check`` gives once it is true."""
    deadline_s = time.monotonic() + timeout_s
    while not (found := check()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(what)
        time.sleep(0.5)
    return found


def tasks(system: LocalSystem, run: str) -> dict[str, str]:
    """Stage -> state."""
    found = api(system, "GET", f"{run}/taskInstances") or {"task_instances": []}
    return {each["task_id"].rpartition(".")[2]: str(each["state"]) for each in found["task_instances"]}


def main(folder: Path) -> None:
    (folder / "submissions").mkdir(parents=True)
    names = ("made-before", "made-after")
    for seed, name in enumerate(names):
        (folder / "submissions" / f"{name}.yaml").write_text(JOB.format(name=name, seed=seed))
    leader = folder / "leader"
    os.environ |= {settings.DATA_DIR: str(leader), BUSY: "2"}
    system = LocalSystem(leader)
    system.up(dags=ROOT / "dags", submissions=folder / "submissions", port=None, say=print, workers=[])
    process = None
    try:
        with PerfDB.connect(None, leader) as db:
            for name in names:
                until(lambda name=name: api(system, "GET", f"/dags/{name}"), f"{name} is not known")
                started = api(
                    system, "POST", f"/dags/{name}/dagRuns", json={"logical_date": None, "conf": {}}
                )
                run = f"/dags/{name}/dagRuns/{started['dag_run_id']}"
                if process is None:
                    until(lambda run=run: tasks(system, run).get("convert") == "success", "not converted")
                    print(
                        json.dumps(
                            {"stored_before_joining": [k.digest[:8] for k in Ledger(db).all() if k.stored]}
                        )
                    )
                    process = worker(folder, system.environment(), db.uri, partitions(1)[0])
                until(lambda run=run: api(system, "GET", run)["state"] in ENDED, f"{name} does not end")
                result = db.find_results({"submission.name": name})[0]
                report = next(
                    (leader / "invocations" / (result.invocation_id or "-")).glob("report.html"), None
                )
                answer = {
                    "job": name,
                    "state": api(system, "GET", run)["state"],
                    "tasks": tasks(system, run),
                    "verdict": str(result.verdict),
                    "records": db.samples(result.run_id).num_rows if result.samples else 0,
                    "report_bytes": report.stat().st_size if report else 0,
                    "hosts": sorted({record.stage for record in db.get_run(result.run_id).stages}),
                    "fetched": sorted(
                        p.name[:8] for p in (folder / "worker" / FETCHED).iterdir() if p.name[0] != "."
                    ),
                    "leader_ran": (leader / "runs" / result.run_id / "serve.json").exists(),
                    "worker_ran": (folder / "worker" / "runs" / result.run_id / "serve.json").exists(),
                }
                print(json.dumps(answer), flush=True)
    finally:
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        system.down(say=print)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
