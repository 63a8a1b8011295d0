"""Which free device is kept for a job on two hosts, and for how long at most."""

from __future__ import annotations

from dataclasses import replace

from inferbench_tasks.cluster.device import Device, Lease
from inferbench_tasks.cluster.keeping import Kept, kept_for
from inferbench_tasks.scheduling.model import QueuedJob

CPU = frozenset({"cpu"})
NOW = 1000.0
JOB = QueuedJob("j", "t", "k", NOW - 60, 1.0, 9.0, CPU, elsewhere=CPU)


def device(name: str, busy_s: float | None = None, **more: object) -> Device:
    """``x1`` is of the host x; ``busy_s``: how long it is expected to be."""
    lease = (
        None if busy_s is None else Lease(job="o", token=1, nonce=name, granted_s=0.0, est_end_s=NOW + busy_s)
    )
    return Device.model_validate(
        {"device_id": name, "device_type": "cpu", "name": "c", "host": name[0], "lease": lease, **more}
    )


def test_a_device_is_kept_no_longer_than_the_job_has_waited() -> None:
    """As far as the other one's end is expected; one that is late is waited for as long as the job had waited then."""
    for busy_s, kept in ((59.0, True), (60.0, True), (61.0, False), (-30.0, True), (-31.0, False)):
        found = kept_for([JOB], [device("x1"), device("y1", busy_s)], NOW)
        assert (found == Kept("j", ("x1",), ("y1",))) == kept, busy_s
        assert kept or found is None


def test_nothing_is_kept_that_would_not_do() -> None:
    """Of the same host, unfit, avoided, or of another name; nor where two are free already, or none is."""
    busy = device("y1", 5.0)
    assert kept_for([JOB], [device("x1"), device("x2", 5.0)], NOW) is None
    assert kept_for([JOB], [device("x1", health="quarantined"), busy], NOW) is None
    assert kept_for([JOB], [device("x1", stopped=True), busy], NOW) is None
    assert kept_for([replace(JOB, avoid=frozenset({"x1"}))], [device("x1"), busy], NOW) is None
    assert kept_for([replace(JOB, elsewhere_on="z")], [device("x1"), busy], NOW) is None
    assert kept_for([JOB], [device("x1"), busy, device("z1")], NOW) is None
    assert kept_for([JOB], [device("x1", 5.0), busy], NOW) is None
    assert kept_for([], [device("x1"), busy], NOW) is None


def test_the_one_that_is_due_first_is_waited_for() -> None:
    """Of those that would do; a named host's, where one is named."""
    devices = [device("x1"), device("y1", 40.0), device("z1", 20.0)]
    assert kept_for([JOB], devices, NOW) == Kept("j", ("x1",), ("z1",))
    assert kept_for([replace(JOB, elsewhere_on="y")], devices, NOW) == Kept("j", ("x1",), ("y1",))


def test_one_job_at_a_time_has_something_kept() -> None:
    """Of the highest priority, then the oldest, that has waited long enough."""
    devices = [device("x1"), device("y1", 30.0)]
    older, urgent = replace(JOB, job_id="older", submit_s=NOW - 90), replace(JOB, job_id="urgent", priority=1)
    new = replace(JOB, job_id="new", submit_s=NOW - 1, priority=2)
    for specs, job in (([JOB, older], "older"), ([JOB, older, urgent], "urgent"), ([new, JOB], "j")):
        found = kept_for(specs, devices, NOW)
        assert found is not None and found.job == job


def test_for_three_hosts_two_are_kept_or_one() -> None:
    """Those that are free already, until the last of the others is due; never for longer than the job has waited."""
    three = replace(JOB, n_elsewhere=2)
    late, soon = device("y1", 50.0), device("z1", 10.0)
    assert kept_for([three], [device("x1"), device("w1"), soon], NOW) == Kept("j", ("w1", "x1"), ("z1",))
    assert kept_for([three], [device("x1"), late, soon], NOW) == Kept("j", ("x1",), ("y1", "z1"))
    assert kept_for([three], [device("x1"), device("y1", 61.0), soon], NOW) is None
    assert kept_for([three], [device("x1"), device("x2"), soon], NOW) is None
    assert kept_for([three], [device("x1"), device("y1"), device("z1")], NOW) is None
