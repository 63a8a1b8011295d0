"""What holds after any history: the properties that the policy is trusted for."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferbench_tasks.scheduling.decide import decide
from inferbench_tasks.scheduling.decisions import Decision, Place, Reject, Reserve
from inferbench_tasks.scheduling.events import Submitted
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import Snapshot, usable_devices
from inferbench_tasks.scheduling.order import waiting_in_order
from inferbench_tasks.scheduling.reference import Reference, decide_reference
from tests.unit.scheduling.scenario import History

STEPS = 25
SEEDS = st.integers(min_value=0, max_value=2**32)
quick = settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@given(seed=SEEDS)
@quick
def test_decide_equals_its_reference(seed: int) -> None:
    """The fast way proposes exactly what the slow and obvious one does, whatever happened before."""
    history = History(Random(seed))
    for _ in range(STEPS):
        history.happen()
        decisions = history.decide()
        assert decisions == decide_reference(history.index.snapshot(), history.now, history.params)
        history.obey(decisions)


@given(seed=SEEDS)
@quick
def test_people_are_shown_the_order_of_the_decisions(seed: int) -> None:
    """Promotions, tenants' shares, clip and ageing included; jobs that only wait for their end come last."""
    history = History(Random(seed), ("late_sjf", "late_sjf_aged"))
    for _ in range(STEPS):
        history.happen()
        rank = Reference(history.index.snapshot(), history.now, history.params).rank
        ended = {e.spec.job_id for e in history.index.jobs.values() if e.run is None and not e.waiting}
        shown = waiting_in_order(history.index, history.now)
        alive = [job for job in shown if job.job_id not in ended]
        assert alive == sorted(alive, key=rank)
        assert {job.job_id for job in shown[len(alive) :]} == ended
        assert len(shown) == len(history.index.snapshot().waiting)
        history.obey(history.decide())


@given(seed=SEEDS)
@quick
def test_deciding_changes_nothing(seed: int) -> None:
    """Decisions are proposals: asked again, the same index says the same."""
    history = History(Random(seed))
    for _ in range(STEPS):
        history.happen()
        before = history.index.snapshot()
        decisions = history.decide()
        assert history.decide() == decisions
        assert history.index.snapshot() == before
        history.obey(decisions)


@given(seed=SEEDS)
@quick
def test_only_fit_devices_are_given_and_only_once(seed: int) -> None:
    """No device gets a second job; none that is not ok or that the job avoids gets one."""
    history = History(Random(seed))
    for _ in range(STEPS):
        history.happen()
        decisions = history.decide()
        snapshot = history.index.snapshot()
        jobs = {job.job_id: job for job in snapshot.waiting}
        taken = {(run.node_id, device) for run in snapshot.running for device in run.devices}
        for place in (d for d in decisions if isinstance(d, Place)):
            node = next(n for n in snapshot.nodes if n.node_id == place.node_id)
            job = jobs.pop(place.job_id)
            assert node.health == "ok"
            assert node.device_type in job.device_types
            assert len(set(place.devices)) == job.n_devices
            assert place.devices == usable_devices(node.node_id, place.devices, job.avoid)
            for device in place.devices:
                assert device not in snapshot.states[node.node_id].unfit
                assert (node.node_id, device) not in taken
                taken.add((node.node_id, device))
        history.obey(decisions)


@given(seed=SEEDS)
@quick
def test_no_device_idles_while_a_job_could_use_it(seed: int) -> None:
    """After a decision, what is still free suits no waiting job, unless it is kept for a reservation."""
    history = History(Random(seed), ("late_sjf", "late_sjf_aged"))
    for _ in range(STEPS):
        history.happen()
        decisions = history.decide()
        assert not _could_start(history.index.snapshot(), decisions)
        history.obey(decisions)


@given(seed=SEEDS)
@quick
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    """Jobs that come at the same moment may come in any order, and so may everything in a snapshot."""
    rng = Random(seed)
    history = History(rng, ("late_sjf", "late_sjf_aged"))
    jobs = [Submitted(0.0, history.job()) for _ in range(rng.randint(2, 30))]
    shuffled = Index(history.params)
    for event in [*history.events, *rng.sample(jobs, len(jobs))]:
        shuffled.apply(event)
    for event in jobs:
        history.apply(event)
    decisions = history.decide()
    assert decide(shuffled, 0.0, history.params) == decisions
    assert decide_reference(shuffled.snapshot(), 0.0, history.params) == decisions


@given(seed=SEEDS)
@quick
def test_a_restart_is_a_replay(seed: int) -> None:
    """An index that is rebuilt from the events alone decides as the one that lived through them."""
    history = History(Random(seed))
    for step in range(STEPS):
        history.happen()
        decisions = history.decide()
        if step % 8 == 0:
            rebuilt = Index(history.params)
            for event in history.events:
                rebuilt.apply(event)
            assert decide(rebuilt, history.now, history.params) == decisions
        history.obey(decisions)


def _could_start(snapshot: Snapshot, decisions: list[Decision]) -> list[str]:
    free = {node.node_id: set(node.free) for node in snapshot.nodes}
    done = {d.job_id for d in decisions if isinstance(d, (Place, Reject))}
    kept = {d.node_id for d in decisions if isinstance(d, Reserve)}
    for place in (d for d in decisions if isinstance(d, Place)):
        free[place.node_id] -= set(place.devices)
    return [
        job.job_id
        for job in snapshot.waiting
        if job.job_id not in done
        for node in snapshot.nodes
        if node.node_id not in kept
        and node.device_type in job.device_types
        and len(usable_devices(node.node_id, sorted(free[node.node_id]), job.avoid)) >= job.n_devices
    ]
