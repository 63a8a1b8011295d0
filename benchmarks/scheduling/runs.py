"""Simulations for the gates, each run once whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from inferbench_tasks.scheduling.generators import Recipe, generate
from inferbench_tasks.scheduling.model import Params
from inferbench_tasks.scheduling.outcome import JobOutcome, Outcome
from inferbench_tasks.scheduling.policies import DEFAULT_POLICY, POLICIES, Policy
from inferbench_tasks.scheduling.simulator import simulate
from inferbench_tasks.scheduling.trace import Trace

Jobs = Callable[[JobOutcome], bool]

_OFF = {"priorities": False, "fair_tenants": False, "deadlines": False, "preempt": False}


def policy(name: str) -> Policy:
    """The named policies, and two that only the gates compare with."""
    if name == "late_fcfs":
        return Policy(name, Params("late", "fcfs", **_OFF))
    default = POLICIES.load(DEFAULT_POLICY)()
    if name == "greedy_skip":
        return Policy(name, replace(default.params, reserve=False))
    if name == "no_promotion":
        return Policy(name, replace(default.params, deadlines=False))
    return POLICIES.load(name)()


@lru_cache(maxsize=64)
def trace(name: str, seed: int, sigma: float = 0.5, wrong_ratio: float = 0.0) -> Trace:
    return generate(name, Recipe(seed, sigma, wrong_ratio=wrong_ratio))


@lru_cache(maxsize=512)
def run(name: str, seed: int, policy_name: str, sigma: float = 0.5, wrong_ratio: float = 0.0) -> Outcome:
    """The outcome; every job must have ended exactly once."""
    jobs = trace(name, seed, sigma, wrong_ratio)
    if policy_name == "clairvoyant":
        jobs, policy_name = jobs.clairvoyant(), "late_sjf"
    return checked(simulate(jobs, policy(policy_name)), jobs)


def checked(outcome: Outcome, jobs: Trace) -> Outcome:
    ended = [job.job_id for job in outcome.jobs]
    if outcome.unfinished or sorted(ended) != sorted(job.spec.job_id for job in jobs.jobs):
        raise AssertionError(f"{outcome.policy} on {jobs.name}: a job ended twice or never")
    return outcome


def mean(name: str, seed: int, policy_name: str, sigma: float = 0.5, wrong_ratio: float = 0.0) -> float:
    """Mean JCT in seconds."""
    return run(name, seed, policy_name, sigma, wrong_ratio).mean_jct_s()
