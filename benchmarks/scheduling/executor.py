"""The real executor, side by side with the simulator and with Airflow's own CeleryExecutor.

    python -m benchmarks.scheduling.executor case-study [--jobs 12] [--scale 0.5]
    python -m benchmarks.scheduling.executor overhead [--rounds 5]

``case-study``: the paper's section 5.5. The same jobs (lengths uniform over 1-60 minutes, scaled to seconds) are run by
rr_fcfs, rr_sjf and qa_sjf, in the simulator and on a real system (Airflow, Celery, two workers on this machine) whose
jobs sleep for their length. All wait before the first is placed. Prints the mean JCT, counted from then, and its ratio
to rr_fcfs, side by side. What a real job spends around its length (task starts, hand-overs) is in its JCT; the
simulator is told that mean, as the first run had it.

``overhead``: a no-op job of six stages on our executor and the same six tasks on the stock CeleryExecutor, with the
same settings and workers; prints the medians, their ratio, and the time from a release to the next job's serve.
"""

from __future__ import annotations

import argparse
import statistics
from datetime import datetime

import numpy as np

from benchmarks.scheduling.real import Api, events, running, until
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.scheduling.events import Finished, LeaseGranted, Started, Submitted
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.simulator import Simulator
from inferbench_tasks.scheduling.trace import Trace, TraceJob, cluster


def case_study(count: int, scale: float) -> None:
    """The paper's three schedulers on the same batch."""
    rng = np.random.default_rng(100)
    lengths = {f"job-{i:02d}": round(float(s) * scale, 3) for i, s in enumerate(rng.uniform(1, 60, count))}
    real: dict[str, float] = {}
    simulated: dict[str, float] = {}
    around_s = 0.0
    for policy in ("rr_fcfs", "rr_sjf", "qa_sjf"):
        log = _batch(lengths, policy)
        granted = {e.job_id: e.at_s for e in log if isinstance(e, LeaseGranted)}
        ended = {e.job_id: e.at_s for e in log if isinstance(e, Finished)}
        jobs = {name: job for name in lengths for job in granted if JobKey.parse(job).dag_id == name}
        begin = min(granted[job] for job in jobs.values())
        real[policy] = statistics.fmean(ended[job] - begin for job in jobs.values())
        if not around_s:
            around_s = statistics.fmean(ended[job] - granted[job] - lengths[n] for n, job in jobs.items())
        trace = Trace(
            "case study",
            tuple(
                TraceJob(QueuedJob(n, "t", n, 0.0, s, float("inf"), frozenset({"cpu"})), s + around_s)
                for n, s in lengths.items()
            ),
            cluster("cpu=2"),
        )
        simulated[policy] = statistics.fmean(Simulator(trace, POLICIES.load(policy)()).run().jct_s())
    print(
        f"{count} jobs, uniform over 1-60 times {scale} s, two devices, {around_s:.2f} s around each length"
    )
    print(f"{'policy':10} {'real mean JCT s':>16} {'ratio':>6} {'simulated s':>12} {'ratio':>6}")
    for policy in real:
        print(
            f"{policy:10} {real[policy]:16.1f} {real['rr_fcfs'] / real[policy]:6.2f} "
            f"{simulated[policy]:12.1f} {simulated['rr_fcfs'] / simulated[policy]:6.2f}"
        )


def _batch(lengths: dict[str, float], policy: str) -> list[object]:
    """The scheduler's log of these jobs, all of which wait before the first is placed: two others hold the devices."""
    holding = {f"holds-{i}": 45.0 + 2.5 * len(lengths) for i in range(2)}
    with running(holding | lengths, policy=policy) as system:
        api = Api(system)
        perfdb = PerfDB.connect(None, system.data_dir)
        first = [api.trigger(name) for name in holding]
        until(lambda: all(d.lease for d in Cluster(perfdb).devices()), "the devices are not taken")
        runs = [api.trigger(name) for name in lengths]
        until(lambda: len(cluster_state(perfdb).waiting) == len(lengths), "not all of them wait")
        assert all(d.lease for d in Cluster(perfdb).devices()), "a device was free before all of them waited"
        api.wait([*first, *runs])
        return events(system)


def overhead(rounds: int) -> None:
    """Ours against the stock executor; and the hand-over of a device."""
    seconds = {"no-op": 0.0}
    took: dict[str, list[float]] = {}
    for name, ours in (("ours", True), ("stock", False)):
        with running(seconds, policy="late_sjf_aged", ours=ours) as system:
            api = Api(system)
            api.wait([api.trigger("no-op")])
            for _ in range(rounds):
                [run] = api.wait([api.trigger("no-op")])
                took.setdefault(name, []).append(_seconds(run))
            if ours:
                api.wait([api.trigger("no-op") for _ in range(4 * rounds)])
                gaps = _gaps(events(system))
    for name, values in took.items():
        print(f"{name:6} six no-op stages: median {statistics.median(values):.2f} s of {len(values)}")
    ratio = statistics.median(took["ours"]) / statistics.median(took["stock"])
    print(f"ratio ours / stock: {ratio:.2f} (gate: at most 1.3) {'pass' if ratio <= 1.3 else 'FAIL'}")
    p95 = float(np.percentile(gaps, 95, method="inverted_cdf"))
    print(
        f"from a release to the next serve's start: median {statistics.median(gaps):.2f} s, p95 {p95:.2f} s of "
        f"{len(gaps)} (gate: p95 at most 2 s) {'pass' if p95 <= 2 else 'FAIL'}"
    )


def _seconds(run: dict[str, str]) -> float:
    start, end = (datetime.fromisoformat(run[k]) for k in ("start_date", "end_date"))
    return (end - start).total_seconds()


def _gaps(log: list[object]) -> list[float]:
    """From each end of a lease to the start of the next job on that device, where one waited."""
    device: dict[str, tuple[str, tuple[int, ...]]] = {}
    freed: dict[tuple[str, tuple[int, ...]], float] = {}
    submitted: dict[str, float] = {}
    gaps = []
    for event in log:
        if isinstance(event, Submitted):
            submitted[event.job.job_id] = event.at_s
        elif isinstance(event, LeaseGranted):
            device[event.job_id] = (event.node_id, event.devices)
        elif isinstance(event, Finished):
            freed[device[event.job_id]] = event.at_s
        elif isinstance(event, Started):
            on = device[event.job_id]
            if on in freed and submitted[event.job_id] <= freed[on]:
                gaps.append(event.at_s - freed.pop(on))
    return gaps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    study = commands.add_parser("case-study")
    study.add_argument("--jobs", type=int, default=12)
    study.add_argument("--scale", type=float, default=0.5)
    cost = commands.add_parser("overhead")
    cost.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if chosen.command == "overhead":
        overhead(chosen.rounds)
    else:
        case_study(chosen.jobs, chosen.scale)
