"""The real executor, side by side with the simulator and with Airflow's own CeleryExecutor.

    python -m benchmarks.scheduling.executor case-study [--jobs 16] [--scale 0.15]
    python -m benchmarks.scheduling.executor overhead [--rounds 5]

``case-study``: the paper's section 5.5. The same jobs (lengths uniform over 1-60 minutes, scaled to seconds) are run by
rr_fcfs, rr_sjf and qa_sjf, in the simulator and on a real system (Airflow, Celery, two workers on this machine) whose
jobs sleep for their length. Prints mean JCT and its ratio to rr_fcfs, side by side. What a real job spends between its
length and its end (task starts, hand-overs) is in its JCT; the simulator is told that mean, as the first run had it.

``overhead``: a no-op job of six stages on our executor and the same six tasks on the stock CeleryExecutor, with the
same settings and workers; prints the medians, their ratio, and the time from a release to the next job's serve.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import datetime

import numpy as np

from benchmarks.scheduling.real import Api, events, running
from inferbench_tasks.scheduling.events import Finished, LeaseGranted, Started, Submitted
from inferbench_tasks.scheduling.model import JobSpec
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.simulator import Simulator
from inferbench_tasks.scheduling.trace import Trace, TraceJob, cluster


def case_study(count: int, scale: float) -> None:
    """The paper's three schedulers on the same jobs."""
    rng = np.random.default_rng(100)
    lengths = {f"job-{i:02d}": round(float(s) * scale, 3) for i, s in enumerate(rng.uniform(1, 60, count))}
    real: dict[str, float] = {}
    around_s = 0.0
    for policy in ("rr_fcfs", "rr_sjf", "qa_sjf"):
        with running(lengths, policy=policy) as system:
            api = Api(system)
            warm = api.trigger(next(iter(lengths)))
            api.wait([warm])
            start = time.time()
            api.wait([api.trigger(name) for name in lengths])
            log = [e for e in events(system) if getattr(e, "at_s", 0.0) >= start]
        submitted = {e.job.job_id: e.at_s for e in log if isinstance(e, Submitted)}
        ended = {e.job_id: e.at_s for e in log if isinstance(e, Finished)}
        granted = {e.job_id: e.at_s for e in log if isinstance(e, LeaseGranted)}
        first = min(submitted.values())
        real[policy] = statistics.fmean(ended[job] - first for job in submitted)
        if not around_s:
            held = [ended[job] - granted[job] - lengths[job.split("|")[0]] for job in submitted]
            around_s = statistics.fmean(held)
    simulated = {}
    for policy in real:
        jobs = tuple(
            TraceJob(JobSpec(n, "t", n, 0.0, s, float("inf"), frozenset({"cpu"})), s + around_s)
            for n, s in lengths.items()
        )
        trace = Trace("case study", jobs, cluster("cpu=2"))
        outcome = Simulator(trace, POLICIES.load(policy)()).run()
        simulated[policy] = statistics.fmean(outcome.jct_s())
    print(
        f"{count} jobs, uniform over 1-60 times {scale} s, two devices, {around_s:.2f} s around each length"
    )
    print(f"{'policy':10} {'real mean JCT s':>16} {'ratio':>6} {'simulated s':>12} {'ratio':>6}")
    for policy in real:
        print(
            f"{policy:10} {real[policy]:16.1f} {real['rr_fcfs'] / real[policy]:6.2f} "
            f"{simulated[policy]:12.1f} {simulated['rr_fcfs'] / simulated[policy]:6.2f}"
        )


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
    device: dict[str, str] = {}
    freed: dict[str, float] = {}
    submitted: dict[str, float] = {}
    gaps = []
    for event in log:
        if isinstance(event, Submitted):
            submitted[event.job.job_id] = event.at_s
        elif isinstance(event, LeaseGranted):
            device[event.job_id] = event.node_id
        elif isinstance(event, Finished):
            freed[device[event.job_id]] = event.at_s
        elif isinstance(event, Started):
            node = device[event.job_id]
            if node in freed and submitted[event.job_id] <= freed[node]:
                gaps.append(event.at_s - freed.pop(node))
    return gaps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    study = commands.add_parser("case-study")
    study.add_argument("--jobs", type=int, default=16)
    study.add_argument("--scale", type=float, default=0.15)
    cost = commands.add_parser("overhead")
    cost.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if chosen.command == "overhead":
        overhead(chosen.rounds)
    else:
        case_study(chosen.jobs, chosen.scale)
