"""Gates 1-11: what the policies must achieve, as means over the seeds unless it says "on any seed"."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.scheduling.inequality import gini
from benchmarks.scheduling.runs import checked, mean, policy, run, trace
from inferbench_tasks.scheduling.estimator import Estimator
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.events import NodeDown
from inferbench_tasks.scheduling.generators import Recipe, recurring
from inferbench_tasks.scheduling.outcome import JobOutcome
from inferbench_tasks.scheduling.policies import DEFAULT_POLICY
from inferbench_tasks.scheduling.simulator import Simulator, simulate

DEFAULT = DEFAULT_POLICY


@dataclass(frozen=True, slots=True)
class Check:
    """One figure with its bound; ``at_most`` False: at least."""

    gate: int
    what: str
    value: float
    bound: float
    at_most: bool

    @property
    def passed(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


@dataclass(frozen=True, slots=True)
class Setting:
    """What the gates run on; a held-out run changes it."""

    seeds: Sequence[int]
    batches: Sequence[str] = ("A1", "A3")
    streams: Sequence[str] = ("B1", "B4", "C1")


def average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def paper_claim(s: Setting) -> list[Check]:
    """1: QA+SJF against RR+FCFS, estimates right: the paper's 1.43, and the formula for batches."""
    gain = average([_ratio("A1", seed, "rr_fcfs", "qa_sjf", sigma=0.0) for seed in s.seeds])
    out = [Check(1, "A1: QA+SJF over RR+FCFS, sigma 0", gain, 1.43, at_most=False)]
    for name in ("A1", "A3"):
        relative = []
        for seed in s.seeds:
            lengths = [job.actual_s for job in trace(name, seed, 0.0).jobs]
            relative.append(_ratio(name, seed, "rr_fcfs", "qa_sjf", sigma=0.0) * (1 - gini(lengths)))
        out.append(
            Check(1, f"{name}: the same, in units of 1/(1-Gini)", average(relative), 0.95, at_most=False)
        )
    return out


def default_gain(s: Setting) -> list[Check]:
    """2: the default policy against RR+FCFS."""
    out = []
    for name, bound in (("A1", 1.30), ("A3", 2.5), ("B1", 1.35), ("C1", 3.7)):
        gains = [_ratio(name, seed, "rr_fcfs", DEFAULT) for seed in s.seeds]
        out.append(Check(2, f"{name}: default over RR+FCFS", average(gains), bound, at_most=False))
    worst = min(_ratio("B4", seed, "rr_fcfs", DEFAULT) for seed in s.seeds)
    return [*out, Check(2, "B4: the same, on any seed", worst, 4.0, at_most=False)]


def clairvoyance(s: Setting) -> list[Check]:
    """3: the price of not knowing the lengths."""
    out = []
    for name in s.batches:
        price = average([_ratio(name, seed, DEFAULT, "clairvoyant") for seed in s.seeds])
        out.append(Check(3, f"{name}: default / clairvoyant", price, 1.12, at_most=True))
    for name in s.streams:
        prices = [_ratio(name, seed, DEFAULT, "clairvoyant") for seed in s.seeds]
        out.append(Check(3, f"{name}: default / clairvoyant", average(prices), 1.06, at_most=True))
        out.append(Check(3, f"{name}: the same, on any seed", max(prices), 1.18, at_most=True))
    return out


def late_binding(s: Setting) -> list[Check]:
    """4: what early placement costs."""
    return [
        Check(
            4,
            f"{name}: QA+SJF / default",
            average([_ratio(name, seed, "qa_sjf", DEFAULT) for seed in s.seeds]),
            1.05,
            at_most=False,
        )
        for name in s.streams
    ]


def longest_wait(s: Setting) -> list[Check]:
    """5: no job starves. FCFS here is late-binding FCFS, the strictest to compare with."""
    out = []
    for name in (n for n in s.streams if n.startswith("B")):
        runs = [(run(name, seed, DEFAULT), run(name, seed, "late_fcfs")) for seed in s.seeds]
        fcfs = average([a.longest_wait_s() / b.longest_wait_s() for a, b in runs])
        own = average([a.longest_wait_s() / a.mean_jct_s() for a, _ in runs])
        out.append(Check(5, f"{name}: longest wait / FCFS's", fcfs, 4.0, at_most=True))
        out.append(Check(5, f"{name}: longest wait / mean JCT", own, 8.0, at_most=True))
    return out


def wrong_estimates(s: Setting) -> list[Check]:
    """6: a tenth of the estimates is wrong by a factor of 10."""
    out = []
    for name in (*s.streams, *s.batches):
        bound = 1.30 if name in s.batches else 1.18
        prices = [_ratio(name, seed, DEFAULT, "clairvoyant", wrong=0.1) for seed in s.seeds]
        out.append(
            Check(6, f"{name}: default / clairvoyant, 10% wrong by 10x", average(prices), bound, at_most=True)
        )
    return out


def estimator(s: Setting) -> list[Check]:
    """7: learned estimates against perfect ones, recurring specs at rho .95."""
    prices, declared = [], []
    for seed in s.seeds:
        jobs = recurring(Recipe(seed))
        perfect = simulate(jobs.clairvoyant(), policy(DEFAULT)).mean_jct_s()
        learned = checked(simulate(jobs, policy(DEFAULT), estimator=Estimator()), jobs)
        prices.append(learned.mean_jct_s() / perfect)
        declared.append(simulate(jobs, policy(DEFAULT)).mean_jct_s() / perfect)
    what = f"G1: estimator / perfect (declared alone: {average(declared):.3f})"
    return [Check(7, what, average(prices), 1.05, at_most=True)]


def gang_reservation(s: Setting) -> list[Check]:
    """8: jobs of several devices, EASY against skipping what does not fit."""
    means, waits = [], []
    for seed in s.seeds:
        easy, skip = run("F1", seed, DEFAULT), run("F1", seed, "greedy_skip")
        means.append(easy.mean_jct_s() / skip.mean_jct_s())
        waits.append(easy.longest_wait_s(_largest) / skip.longest_wait_s(_largest))
    return [
        Check(8, "F1: mean JCT, reservation / greedy skip", average(means), 1.05, at_most=True),
        Check(8, "F1: longest wait of the largest, the same", average(waits), 0.8, at_most=True),
    ]


def dead_nodes(s: Setting) -> list[Check]:
    """9: two of 16 nodes are down for 8 h. Counts of what must not happen, over all seeds."""
    doubled = waited = strayed = 0
    for seed in s.seeds:
        base = trace("B4", seed)
        dead, down_s, up_s = base.nodes[3:5], 7200.0, 7200.0 + 8 * 3600.0
        outages = (
            *(NodeDown(down_s, node.node_id) for node in dead),
            *(replace(node, at_s=up_s) for node in dead),
        )
        jobs = replace(base, outages=outages)
        simulator = Simulator(
            jobs, policy(DEFAULT), log=EventLog(io.StringIO(), DEFAULT, policy(DEFAULT).params)
        )
        outcome = simulator.run()
        ended = [job.job_id for job in outcome.jobs]
        doubled += abs(len(ended) - len(jobs.jobs)) + len(ended) - len(set(ended)) + len(outcome.unfinished)
        doubled += sum(job.status != "finished" for job in outcome.jobs)
        names = {node.node_id for node in dead}
        for job in outcome.jobs:
            during = job.start_s is not None and down_s <= job.start_s < up_s
            strayed += during and job.node_id in names
            # Nothing is bound to the dead nodes: whoever waits through the whole outage would show it.
            waited += job.submit_s <= down_s and job.wait_s >= up_s - down_s
    return [
        Check(9, "B4: jobs that did not end exactly once", doubled, 0, at_most=True),
        Check(9, "B4: jobs placed on a dead node", strayed, 0, at_most=True),
        Check(9, "B4: jobs that waited for a dead node", waited, 0, at_most=True),
    ]


def tenant_dump(s: Setting) -> list[Check]:
    """10: after a tenant dumps 600 short jobs, the others' mean JCT in the next 2 h."""
    ratios = [
        run("D1", seed, DEFAULT).mean_jct_s(_others) / run("D1", seed, "late_sjf").mean_jct_s(_others)
        for seed in s.seeds
    ]
    return [Check(10, "D1: the others' mean, default / plain SJF", average(ratios), 0.6, at_most=True)]


def nightly(s: Setting) -> list[Check]:
    """11: a nightly batch due in 8 h next to interactive jobs."""
    late = sum(run("E1", seed, DEFAULT).summary()["late"] for seed in s.seeds)
    unpromoted = sum(run("E1", seed, "no_promotion").summary()["late"] for seed in s.seeds)
    ratios = [
        run("E1", seed, DEFAULT).mean_jct_s(_interactive)
        / run("E1", seed, "late_fcfs").mean_jct_s(_interactive)
        for seed in s.seeds
    ]
    return [
        Check(11, f"E1: nightly jobs late (without promotion: {unpromoted})", late, 0, at_most=True),
        Check(11, "E1: interactive mean, default / FCFS", average(ratios), 0.4, at_most=True),
    ]


GATES: dict[int, Callable[[Setting], list[Check]]] = {
    1: paper_claim,
    2: default_gain,
    3: clairvoyance,
    4: late_binding,
    5: longest_wait,
    6: wrong_estimates,
    7: estimator,
    8: gang_reservation,
    9: dead_nodes,
    10: tenant_dump,
    11: nightly,
}


def _ratio(name: str, seed: int, over: str, under: str, *, sigma: float = 0.5, wrong: float = 0.0) -> float:
    return mean(name, seed, over, sigma, wrong) / mean(name, seed, under, sigma, wrong)


def _largest(job: JobOutcome) -> bool:
    return job.n_devices == 8


def _others(job: JobOutcome) -> bool:
    return job.tenant != "dump" and 7200.0 <= job.submit_s <= 14400.0


def _interactive(job: JobOutcome) -> bool:
    return job.tenant != "nightly"
