"""The scheduler gets kill -9 while many jobs wait for a device.

    python -m benchmarks.scheduling.restart [--jobs 50]

On a real system (Airflow, Celery, PerfDB, two workers). Two jobs hold the devices, the others wait. The order
afterwards must be as before; each must be granted a device once, in that order. Ends with 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import numpy as np

from benchmarks.scheduling.real import Api, running, until
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.scheduling.eventlog import read_log
from inferbench_tasks.scheduling.events import LeaseGranted


def restart(count: int) -> int:
    """The order of what waits outlives the scheduler."""
    rng = np.random.default_rng(7)
    held_s = 60.0 + 2.5 * count
    lengths = {f"holds-{i}": held_s for i in range(2)} | {f"job-{i:02d}": 0.0 for i in range(count)}
    jobs = [name for name in lengths if name.startswith("job")]
    declared = dict(zip(jobs, (2.0 + 7.0 * rng.permutation(count)).tolist(), strict=True))
    with running(lengths, policy="late_sjf", declared=declared) as system:
        api = Api(system)
        perfdb = PerfDB.connect(None, system.data_dir)
        holding = [api.trigger(name) for name in lengths if name.startswith("holds")]
        until(lambda: all(d.lease for d in Cluster(perfdb).devices()), "the devices are not taken")
        runs = [api.trigger(name) for name in declared]
        until(lambda: len(cluster_state(perfdb).waiting) == count, "not all of them wait")
        before = [job.job for job in cluster_state(perfdb).waiting]
        [scheduler] = [p for p in system.running() if p.name == "scheduler"]
        os.kill(scheduler.pid, signal.SIGKILL)
        logs = system.data_dir / "scheduling"
        known = set(logs.glob("*.jsonl"))
        until(lambda: set(logs.glob("*.jsonl")) - known, "no new scheduler")
        until(lambda: len(cluster_state(perfdb).waiting) == count, "not all of them wait again")
        after = [job.job for job in cluster_state(perfdb).waiting]
        api.wait([*holding, *runs])
        [log] = set(logs.glob("*.jsonl")) - known
        grants = [
            e.job_id for e in read_log(log).events if isinstance(e, LeaseGranted) and e.job_id in before
        ]
    checks = {
        f"the order of {count} waiting jobs is kept": after == before,
        "it is the declared lengths'": [declared[JobKey.parse(job).dag_id] for job in before]
        == sorted(declared.values()),
        "each was granted a device once": sorted(grants) == sorted(before),
        "in that order": grants == before,
    }
    for what, holds in checks.items():
        print(f"{what}: {'pass' if holds else 'FAIL'}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=50)
    sys.exit(restart(parser.parse_args().jobs))
