"""A waiting job that is taken out of the index and comes back, as that of a login without device time for a while."""

from __future__ import annotations

import pytest

from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decide import decide
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES


def job(name: str, submit_s: float) -> QueuedJob:
    return QueuedJob(name, name[0], name, submit_s, 5.0, 100.0, frozenset({"cpu"}))


@pytest.mark.parametrize("policy", ["late_sjf", "late_sjf_aged"])
def test_it_waits_at_its_old_place(policy: str) -> None:
    """However often, with others of its tenant beside it; what is left of its former place disturbs nobody."""
    params = POLICIES.load(policy)().params
    index = Index(params)
    jobs = [job(f"a{number}", float(number)) for number in range(6)] + [job("b0", 2.5)]
    for one in jobs:
        index.apply(ev.Submitted(10.0, one))
    for turn in range(40):
        for one in (jobs[0], jobs[3], jobs[6]):
            index.apply(ev.Cancelled(11.0 + turn, one.job_id, "for now"))
        for one in (jobs[6], jobs[3], jobs[0]):
            index.apply(ev.Submitted(11.5 + turn, one))
        assert decide(index, 12.0 + turn, params) == []
    index.apply(ev.NodeUp(100.0, "n", "cpu", 7))
    placed = [decision.job_id for decision in decide(index, 101.0, params)]
    assert sorted(placed) == sorted(one.job_id for one in jobs)
