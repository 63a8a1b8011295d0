"""The simulator against queueing theory."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate

from benchmarks.scheduling.inequality import gini
from inferbench_tasks.scheduling.generators import (
    Recipe,
    arrivals,
    batch,
    bimodal,
    exponential,
    lognormal,
    uniform,
)
from inferbench_tasks.scheduling.model import Params
from inferbench_tasks.scheduling.policies import POLICIES, Policy
from inferbench_tasks.scheduling.simulator import simulate
from inferbench_tasks.scheduling.trace import Trace

Lengths = Callable[[int, np.random.Generator], NDArray[np.float64]]

FCFS = Policy(
    "late_fcfs",
    Params("late", "fcfs", priorities=False, fair_tenants=False, deadlines=False, preempt=False),
)


def erlang_c(servers: int, offered: float) -> float:
    """Probability that a job of an M/M/k queue waits (Erlang C); ``offered`` = arrival rate * mean service."""
    terms = [offered**n / math.factorial(n) for n in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last)


SEEDS = range(40, 48)


def assert_agrees(ratios: list[float]) -> None:
    """Simulated over expected, one per seed: no bias beyond three standard errors, which are below 4%."""
    error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
    assert error < 0.04
    assert abs(np.mean(ratios) - 1) < 3 * error


def load_of(trace: Trace) -> tuple[float, float]:
    """(arrivals per second, mean length in seconds) as they came out: most of a run's noise is in these."""
    return len(trace.jobs) / trace.jobs[-1].spec.submit_s, float(np.mean([j.actual_s for j in trace.jobs]))


def test_fcfs_is_m_m_k() -> None:
    """Mean wait of M/M/2 FCFS is C(k, lambda / mu) / (k mu - lambda)."""
    ratios = []
    for seed in SEEDS:
        trace = arrivals(exponential, 0.5, Recipe(seed, 0.0, 5_000), devices="2")
        rate, service_s = load_of(trace)
        expected_s = erlang_c(2, rate * service_s) / (2 / service_s - rate)
        ratios.append(float(np.mean([job.wait_s for job in simulate(trace, FCFS).jobs])) / expected_s)
    assert_agrees(ratios)


def test_fcfs_is_the_recursion_of_kiefer_and_wolfowitz() -> None:
    """Job by job, without noise: each starts when it has come and the first of k servers is free (1955)."""
    trace = arrivals(lognormal, 0.9, Recipe(1, 0.5, 3000), devices="5")
    started = {job.job_id: job.start_s for job in simulate(trace, FCFS).jobs}
    free_s = [0.0] * 5
    for job in trace.jobs:
        start_s = max(heapq.heappop(free_s), job.spec.submit_s)
        heapq.heappush(free_s, start_s + job.actual_s)
        assert started[job.spec.job_id] == start_s


def test_sjf_is_m_g_1() -> None:
    """Mean wait of M/G/1 non-preemptive SJF, uniform lengths.

    W = integral of W0 / (1 - rho(x))^2 dF(x), W0 = lambda E[S^2] / 2, rho(x) = lambda * integral of t dF(t) up to x
    (Conway, Maxwell, Miller, Theory of Scheduling, 1967).
    """
    low, high = 60.0, 3600.0
    density = 1 / (high - low)
    ratios = []
    for seed in SEEDS:
        trace = arrivals(uniform, 0.5, Recipe(seed, 0.0, 5_000), devices="1")
        rate, _ = load_of(trace)
        residual_s = rate * (high**3 - low**3) / 3 * density / 2
        points = np.linspace(low, high, 2001)
        waits = density * residual_s / (1 - rate * density * (points**2 - low**2) / 2) ** 2
        expected_s = float(integrate.simpson(waits, x=points))
        outcome = simulate(trace, POLICIES.load("late_sjf")())
        ratios.append(float(np.mean([job.wait_s for job in outcome.jobs])) / expected_s)
    assert_agrees(ratios)


@pytest.mark.parametrize(("lengths", "gain"), [(uniform, 1.48), (bimodal, 2.69)])
def test_the_gain_of_sjf_on_a_batch_is_the_gini_formula(lengths: Lengths, gain: float) -> None:
    """Many jobs on one device: FCFS's mean JCT over SJF's is 1 / (1 - Gini of the lengths), within 3%."""
    trace = batch(lengths, Recipe(3, 0.0, 2000), devices="1")
    ratio = simulate(trace, FCFS).mean_jct_s() / simulate(trace, POLICIES.load("late_sjf")()).mean_jct_s()
    formula = 1 / (1 - gini([job.actual_s for job in trace.jobs]))
    assert ratio == pytest.approx(formula, rel=0.03)
    assert formula == pytest.approx(gain, rel=0.1)


def test_constant_lengths_gain_nothing() -> None:
    """With equal lengths every order is as good: Gini 0, ratio 1."""
    trace = batch(uniform, Recipe(3, 0.0, 200), devices="4")
    equal = replace(
        trace,
        jobs=tuple(replace(j, spec=replace(j.spec, est_s=60.0), actual_s=60.0) for j in trace.jobs),
    )
    assert gini([60.0] * 5) == 0.0
    assert simulate(equal, FCFS).mean_jct_s() == simulate(equal, POLICIES.load("late_sjf")()).mean_jct_s()
