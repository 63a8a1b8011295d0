"""One scheduler's executor at work on a cluster of simulated agents: ``control.measure``; a process of its own."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster.judged import p99, quantile

#: So many tasks are queued in a round of Airflow's scheduler (AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY).
PER_ROUND = 256
PAUSE_S = 0.05


class Watched:
    """Executor rounds with their processor time and wall time, and the moments of decisions and leases."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.cpu_s: list[float] = []
        self.wall_s: list[float] = []
        self.leased_s: list[float] = []
        self._decided = 0.0
        dispatcher = executor._dispatcher
        decided, grant = dispatcher.log.decided, dispatcher.cluster.grant

        def timed_decided(*args: Any) -> None:
            self._decided = time.monotonic()
            decided(*args)

        def timed_grant(*args: Any, **kwargs: Any) -> Any:
            lease = grant(*args, **kwargs)
            self.leased_s.append(time.monotonic() - self._decided)
            return lease

        dispatcher.log.decided, dispatcher.cluster.grant = timed_decided, timed_grant

    def round(self) -> None:
        """What Airflow's scheduler asks of its executor in one round."""
        wall, cpu = time.monotonic(), time.process_time()
        self.executor.heartbeat()
        self.cpu_s.append(time.process_time() - cpu)
        self.wall_s.append(time.monotonic() - wall)

    def told(self, seconds: float) -> dict[str, Any]:
        """Figures since the last time, of so many seconds."""
        figures = {
            "rounds": len(self.cpu_s),
            "round_cpu_p50_ms": ms(statistics.median(self.cpu_s) if self.cpu_s else None),
            "round_cpu_p99_ms": ms(p99(self.cpu_s)),
            "round_wall_p99_ms": ms(p99(self.wall_s)),
            "round_wall_max_ms": ms(max(self.wall_s, default=None)),
            "scheduler_cores": round(sum(self.cpu_s) / seconds, 3),
            "leases": len(self.leased_s),
            "decision_to_lease_p50_ms": ms(quantile(self.leased_s, 0.5)),
            "decision_to_lease_p99_ms": ms(p99(self.leased_s)),
        }
        self.cpu_s, self.wall_s, self.leased_s = [], [], []
        return figures


def ms(seconds: float | None) -> float | None:
    """Rounded."""
    return None if seconds is None else round(1e3 * seconds, 2)


def measure(jobs: int, devices: int, length_s: float, seconds: float) -> None:
    """A line of JSON: entering the jobs, filling the devices, and then so many seconds of going on."""
    from benchmarks.cluster.played import PlayedExecutor, enter

    executor = PlayedExecutor(parallelism=100_000)
    workloads = list(enter(jobs))
    executor.begin(length_s)
    executor._dispatcher.held_back = "the jobs are entered first"
    executor._see_disk = lambda: None  # type: ignore[method-assign]
    watched, began, left = Watched(executor), time.monotonic(), workloads[::-1]
    while left or len(executor._waiting) < jobs:
        for _ in range(min(PER_ROUND, len(left))):
            workload = left.pop()
            executor.queued_tasks[workload.key] = workload
        watched.round()
    entering = watched.told(time.monotonic() - began)
    print(json.dumps({"phase": "entering", **entering, "s": round(time.monotonic() - began, 1)}), flush=True)
    executor._dispatcher.held_back = None
    began = time.monotonic()
    while len(executor.ends) < devices and time.monotonic() - began < 120:
        watched.round()
        time.sleep(PAUSE_S)
    filling = watched.told(time.monotonic() - began)
    print(json.dumps({"phase": "filling", "running": len(executor.ends), **filling,
                      "s": round(time.monotonic() - began, 1)}), flush=True)  # fmt: skip
    began, ended = time.monotonic(), 0
    while (now := time.monotonic()) - began < seconds:
        ended += executor.play()
        watched.round()
        time.sleep(PAUSE_S)
    going = watched.told(now - began)
    print(json.dumps({"phase": "going", "ended": ended, **going, "s": round(now - began, 1)}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("INFERBENCH_DATA_DIR", str(Path(os.environ["AIRFLOW_HOME"])))
    measure(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
