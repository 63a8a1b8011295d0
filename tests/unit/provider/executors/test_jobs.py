"""A task's job as the policy sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.device import TELLS, Device
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import RunDocument, StageRecord, SubmissionInfo
from inferbench_tasks.provider.executors.jobs import LEAST_LIMIT_S, leased_s, queued_job
from inferbench_tasks.provider.on_device import LeaseRequest
from inferbench_tasks.scheduling.estimator import Estimator
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import READY_TIMEOUT_S, JobSpec
from inferbench_tasks.submission.sweep import expand

pytestmark = pytest.mark.airflow
FILE = Path(__file__).parents[4] / "configs" / "nightly" / "digits-onnxruntime.yaml"


@dataclass
class FakeCluster:
    """No history unless some were lost, no devices."""

    found: list[Any] = field(default_factory=list)
    lost: frozenset[str] = frozenset()

    def history(self, job: str) -> tuple[int, frozenset[str]]:
        return 1, self.lost

    def devices(self) -> list[Any]:
        return self.found


def spec(request: LeaseRequest, conf: dict[str, Any], estimator: Estimator) -> QueuedJob:
    key = JobKey("digits", "manual", 0)
    return queued_job(key, request, conf, 0.0, estimator, FakeCluster())  # type: ignore[arg-type]


def test_a_night_is_not_taken_for_one_of_its_runs() -> None:
    """What single runs of some seconds teach shortens neither its estimate nor its limit, whatever its trigger asks."""
    from inferbench_tasks.provider.nightly.dag import job_document, lease_request

    submission = read_submission(FILE, INSTALLED)
    night = job_document(submission)
    single = LeaseRequest(expand(submission)[0].spec.model_dump(mode="json"))
    estimator = Estimator()
    run = spec(single, {}, estimator)
    for _ in range(20):
        estimator.observe(run.spec_hash, 9.0)
    assert spec(single, {}, estimator).est_s == pytest.approx(9, rel=0.2)
    usual = spec(lease_request(night), {}, estimator)
    assert usual.est_s >= night["expected_duration_s"] * 0.5
    assert usual.limit_s >= night["deadline_s"], "how many runs it takes shows only as it goes"
    assert spec(lease_request(night), {"pairs": 40}, estimator).est_s == pytest.approx(5 * usual.est_s)


def test_replicas_ask_for_a_host_that_has_their_balancer() -> None:
    """By what they speak; a server on one device asks for none."""
    text = {"name": "x", "model": {"kind": "zoo", "name": "digits"}}
    load = {"arrivals": {"kind": "poisson", "rate_rps": 10}, "protocol": "grpc"}
    asked = [
        spec(LeaseRequest(job.model_dump(mode="json")), {}, Estimator())
        for devices in (1, 2)
        for job in [JobSpec.model_validate({**text, "load": load, "serve": {"devices": devices}})]
    ]
    assert [(job.n_devices, job.ability) for job in asked] == [(1, ""), (2, "nginx over grpc")]


def test_what_its_hosts_have_to_fetch_is_time_of_its_own() -> None:
    """The first guess is as much longer, no later one; and the limit, however short its runs were, is three times the
    estimate without it, and that time once."""
    load = {"arrivals": {"kind": "poisson", "rate_rps": 1}, "duration_s": 300.0}
    job = JobSpec.model_validate({"name": "x", "model": {"kind": "zoo", "name": "digits"}, "load": load})
    request = LeaseRequest(job.model_dump(mode="json"))
    estimator, key = Estimator(), JobKey("digits", "manual", 0)

    def queued(fetch_s: float) -> QueuedJob:
        cluster: Any = FakeCluster()
        return queued_job(key, request, {}, 0.0, estimator, cluster, fetching=lambda spec: fetch_s)

    plain, large = queued(0.0), queued(300.0)
    assert large.est_s == pytest.approx(plain.est_s + 300)
    assert large.limit_s == pytest.approx(3 * plain.est_s + 300)
    estimator.observe(plain.spec_hash, 500.0)
    plain, large = queued(0.0), queued(300.0)
    assert large.est_s == plain.est_s
    assert large.limit_s == pytest.approx(3 * plain.est_s + 300)
    for _ in range(200):
        estimator.observe(plain.spec_hash, 20.0)
    assert queued(300.0).limit_s >= LEAST_LIMIT_S + 300 and queued(0.0).limit_s == LEAST_LIMIT_S


@pytest.mark.parametrize(
    ("serve", "starts_s"),
    [
        ({"devices": 2, "spread": "own_hosts", "ready_timeout_s": 300.0}, 2 * 300.0),
        ({"devices": 8, "spread": "own_hosts", "ready_timeout_s": 300.0}, 8 * 300.0),
        ({"devices": 8, "ready_timeout_s": 300.0}, 8 * 300.0),
        ({"ready_timeout_s": 300.0}, 300.0),
        ({"backend": "vllm"}, 600.0),
        ({}, READY_TIMEOUT_S),
    ],
)
@pytest.mark.parametrize("taken_s", [5.0, 60.0, 3000.0])
def test_no_limit_ends_a_start_that_has_time_left(
    serve: dict[str, Any], starts_s: float, taken_s: float
) -> None:
    """Servers that take all of what each start may have, one after the other, meet their own limit before the job's,
    and leave what the job is expected to take, however short or long its runs were; the estimate has nothing of it.
    """
    load = {"arrivals": {"kind": "poisson", "rate_rps": 1}, "duration_s": 5.0}
    job = {"name": "x", "model": {"kind": "zoo", "name": "digits"}, "load": load}

    def queued(patience: dict[str, float], estimator: Estimator) -> QueuedJob:
        changed = {**job, "serve": {**serve, **patience}}
        request = LeaseRequest(JobSpec.model_validate(changed).model_dump(mode="json"))
        return spec(request, {}, estimator)

    estimator = Estimator()
    first = queued({}, estimator)
    assert first.limit_s >= starts_s + first.est_s
    assert first.est_s == queued({"ready_timeout_s": 4000.0}, estimator).est_s < 200
    for _ in range(200):
        estimator.observe(first.spec_hash, taken_s)
    later = queued({}, estimator)
    assert later.est_s == pytest.approx(taken_s, rel=0.1)
    assert later.limit_s >= starts_s + later.est_s


def test_a_usual_start_is_within_the_limit_that_every_job_has() -> None:
    """No job of one server with the usual patience has more than it had, and one with less patience no less."""
    load = {"arrivals": {"kind": "poisson", "rate_rps": 1}, "duration_s": 5.0}
    job = {"name": "x", "model": {"kind": "zoo", "name": "digits"}, "load": load}
    for serve in ({}, {"ready_timeout_s": 1.0}, {"ready_timeout_s": READY_TIMEOUT_S}):
        request = LeaseRequest(JobSpec.model_validate({**job, "serve": serve}).model_dump(mode="json"))
        assert spec(request, {}, Estimator()).limit_s == LEAST_LIMIT_S


def run_of(kind: str | None, *stages: tuple[str, float, float]) -> RunDocument:
    """A run of stages that began and ended so many seconds after it began; the last of a name is the last try."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: float) -> datetime:
        return begin + timedelta(seconds=seconds)

    return RunDocument(
        run_id="r", invocation_id="i", job_id="j", submission=SubmissionInfo(name="s"),
        job={} if kind is None else {"kind": kind}, started_at=begin, updated_at=begin,
        stages=[
            StageRecord(stage=name, attempt=try_, state="done", started_at=at(from_s), ended_at=at(to_s))
            for try_, (name, from_s, to_s) in enumerate(stages, 1)
        ],
    )  # fmt: skip


def test_how_long_a_run_held_its_device() -> None:
    """From the start of the last try of the stage that takes the device to the end of the one that gives it back."""
    stages = [("generate", 0, 5), ("serve", 5, 6), ("serve", 10, 12), ("load", 12, 20), ("release", 20, 21)]
    assert leased_s(run_of(None, *stages)) == leased_s(run_of("serving", *stages)) == 11
    assert leased_s(run_of("serving", *stages[:1])) is None
    assert leased_s(run_of("not-installed", *stages)) is None, "of a package that is gone"


def test_clocks_that_lie_apart_shorten_no_learnt_length() -> None:
    """A first try by a clock half a minute ahead, as runs of earlier versions have it: the last one's times count."""
    stages = [("serve", 30, 32), ("serve", 20, 22), ("load", 22, 30), ("release", 30, 31)]
    assert leased_s(run_of("serving", *stages)) == 11


@pytest.mark.parametrize(("load_to_s", "learnt"), [(20.0, 11.0), (21.5, 12.5), (50.0, None), (-10.0, None)])
def test_nothing_is_learnt_of_a_run_whose_clock_was_set_meanwhile(
    load_to_s: float, learnt: float | None
) -> None:
    """A load of 8 s that took 38 s, or -22 s, by the clock; what recording takes is not taken for that."""
    run = run_of("serving", ("serve", 10, 12), ("load", 12, load_to_s), ("release", load_to_s, load_to_s + 1))
    durations = {"serve": 2.0, "load": 8.0, "release": 1.0}
    stages = [stage.model_copy(update={"duration_s": durations[stage.stage]}) for stage in run.stages]
    assert leased_s(run.model_copy(update={"stages": stages})) == learnt


def test_fair_share_goes_by_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission that names another user is its login's all the same; a schedule's has the user that it names."""
    submission = read_submission(FILE, INSTALLED).model_copy(update={"user": "somebody-else", "priority": 50})
    request = LeaseRequest(expand(submission)[0].spec.model_dump(mode="json"))
    key = JobKey("digits", "manual", 0)
    setting = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"
    monkeypatch.setenv(setting, "ann:submitter,root:admin")

    def job(login: str | None) -> tuple[str, int]:
        queued = queued_job(key, request, {}, 0.0, Estimator(), FakeCluster(), login)  # type: ignore[arg-type]
        return queued.tenant, queued.priority

    assert job("ann") == ("ann", 0), "a submitter's jobs go before nobody's by a priority of their own"
    assert job("root") == ("root", 50)
    assert job(None) == ("somebody-else", 50)


def test_a_job_that_names_devices_avoids_all_others() -> None:
    """Those that are registered now, beside those that it lost before; without names it avoids none."""
    night = expand(read_submission(FILE, INSTALLED))[0].spec

    def avoided(*names: str) -> frozenset[str]:
        named = night.model_copy(update={"on_devices": names})
        there = [SimpleNamespace(device_id=name, device_type="cpu") for name in ("a.cpu", "b.cpu", "c.cpu")]
        request = LeaseRequest(named.model_dump(mode="json"))
        key = JobKey("digits", "manual", 0)
        return queued_job(key, request, {}, 0.0, Estimator(), FakeCluster(there)).avoid  # type: ignore[arg-type]

    assert avoided() == frozenset()
    assert avoided("b.cpu") == {"a.cpu", "c.cpu"}
    assert avoided("b.cpu", "c.cpu") == {"a.cpu"}


def test_a_load_of_another_host_may_come_from_devices_that_were_not_chosen() -> None:
    """Those that are named bind the server's alone; what its trigger leaves out binds both."""
    night = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    there = [
        SimpleNamespace(device_id=name, device_type="cpu", name=name[0])
        for name in ("a.cpu", "b.cpu", "c.cpu")
    ]

    def queued(where: str, conf: dict[str, Any]) -> QueuedJob:
        named = {**night, "load": {**night["load"], "from": where}, "on_devices": ["b.cpu"]}
        request, key = LeaseRequest(named, leaves_out="without"), JobKey("digits", "manual", 0)
        return queued_job(key, request, conf, 0.0, Estimator(), FakeCluster(there))  # type: ignore[arg-type]

    away = queued("other_host", {})
    assert away.elsewhere == {"cpu"} and away.avoid == away.not_its_own == {"a.cpu", "c.cpu"}
    kept = queued("other_host", {"without": ["c"]})
    assert kept.avoid == {"a.cpu", "c.cpu"} and kept.not_its_own == {"a.cpu"}
    named = queued("b", {})
    assert named.elsewhere == {"cpu"} and named.elsewhere_on == "b" and away.elsewhere_on == ""
    own = queued("server_host", {})
    assert own.avoid == {"a.cpu", "c.cpu"} and own.not_its_own == frozenset()


def test_replicas_stand_on_devices_that_were_chosen_on_whichever_host() -> None:
    """Those that are named bind all of them; the job asks for one of its own and one of each other host."""
    night = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    there = [SimpleNamespace(device_id=f"{name}.cpu", device_type="cpu", name=name) for name in "abcd"]
    serve = {**night["serve"], "devices": 3, "spread": "own_hosts"}
    request = LeaseRequest({**night, "serve": serve, "on_devices": ["a.cpu", "b.cpu", "c.cpu"]})
    key = JobKey("digits", "manual", 0)
    spec = queued_job(key, request, {}, 0.0, Estimator(), FakeCluster(there))  # type: ignore[arg-type]
    assert (spec.n_devices, spec.n_elsewhere, spec.n_in_all) == (1, 2, 3) and spec.elsewhere == {"cpu"}
    assert spec.avoid == {"d.cpu"} and spec.not_its_own == frozenset()
    assert spec.ability == "nginx over http"


def test_a_job_on_two_hosts_avoids_the_one_that_it_lost_where_two_others_are_there() -> None:
    """Of two it needs both: avoided, the one that comes back would have it wait for ever."""
    night = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    request = LeaseRequest({**night, "load": {**night["load"], "from": "other_host"}})

    def avoided(*there: str, gone: str = "") -> frozenset[str]:
        devices = [
            Device(
                device_id=f"{name}.cpu",
                device_type="cpu",
                name="c",
                host=name,
                home=name,
                stopped=name == gone,
            )
            for name in there
        ]
        cluster = FakeCluster(devices, lost=frozenset({"b.cpu"}))
        return queued_job(JobKey("digits", "manual", 0), request, {}, 0.0, Estimator(), cluster).avoid  # type: ignore[arg-type]

    assert avoided("a", "b") == frozenset()
    assert avoided("a", "b", gone="b") == frozenset()
    assert avoided("a", "b", "c") == {"b.cpu"}
    assert avoided("a", "b", "c", gone="c") == frozenset()


def test_a_job_that_was_lost_on_the_only_device_that_is_able_is_tried_there_again() -> None:
    """Avoided, it would wait for ever beside a device that can't do what it needs; another that can is had instead."""
    document = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    request = LeaseRequest(document).asking({"ability": "runtime r is r 1"})

    def avoided(
        *there: str, only: tuple[str, ...] = (), gone: str = "", asked: bool = True
    ) -> frozenset[str]:
        devices = [
            Device(
                device_id=name,
                device_type="cpu",
                name="c",
                host=name,
                stopped=name == gone,
                capabilities={TELLS: {"runtime r": "r 2" if name.startswith("w") else "r 1"}},
            )
            for name in there
        ]
        mine = request if asked else LeaseRequest(document)
        mine = replace(mine, job={**document, "on_devices": list(only)})
        cluster = FakeCluster(devices, lost=frozenset({"l1"}))
        return queued_job(JobKey("digits", "manual", 0), mine, {}, 0.0, Estimator(), cluster).avoid  # type: ignore[arg-type]

    assert avoided("l1", "w1") == frozenset()
    assert avoided("l1", "l2", "w1") == {"l1"}
    assert avoided("l1", "l2", "w1", gone="l2") == frozenset()
    assert avoided("l1", "l2", "w1", only=("l1", "w1")) == {"l2"}
    assert avoided("l1", "w1", asked=False) == {"l1"}


def test_a_job_whose_system_was_chosen_avoids_all_others() -> None:
    """One device, or those that are alike, whatever other ids the submission names."""
    spec = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    key, chosen = JobKey("digits", "manual", 0), {"device": "cpu", "name": "c"}

    def avoided(**ids: Any) -> frozenset[str]:
        request = LeaseRequest({**spec, "on_devices": ["c.cpu"], "system": {**chosen, **ids}})
        there = [SimpleNamespace(device_id=name, device_type="cpu") for name in ("a.cpu", "b.cpu", "c.cpu")]
        return queued_job(key, request, {}, 0.0, Estimator(), FakeCluster(there)).avoid  # type: ignore[arg-type]

    assert avoided(id="a.cpu") == {"b.cpu", "c.cpu"}
    assert avoided(alike=["a.cpu", "b.cpu"]) == {"c.cpu"}


def test_a_job_whose_system_a_task_chose_is_for_its_devices() -> None:
    """By the type and the ids that were chosen, whatever the form was read for; without a choice it is not queued."""
    spec = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    there = [
        SimpleNamespace(device_id="a.cpu", device_type="cpu"), SimpleNamespace(device_id="b.gpu-0", device_type="l4"),
        SimpleNamespace(device_id="b.gpu-1", device_type="l4"),
    ]  # fmt: skip
    request = LeaseRequest(spec, chosen_by="choose")
    chosen = {"device": "gpu:l4", "name": "L4", "alike": ["b.gpu-1"]}
    key = JobKey("nightly.digits", "manual", 0)
    queued = queued_job(key, request.on(chosen), {}, 0.0, Estimator(), FakeCluster(there))  # type: ignore[arg-type]
    assert queued.device_types == {"l4"} and queued.avoid == {"a.cpu", "b.gpu-0"}
    with pytest.raises(InputError, match="choose chose no system"):
        request.on(None)
    assert LeaseRequest(spec).on(None).job == spec


def test_a_job_asks_of_its_device_what_a_task_of_its_own_said() -> None:
    """Beside what its schema says; a task that said nothing, as one of an earlier version, keeps no job waiting."""
    document = expand(read_submission(FILE, INSTALLED))[0].spec.model_dump(mode="json")
    request = LeaseRequest(document, asked_by="job-000.assign")
    assert (
        spec(request.asking({"ability": "runtime r is r 1"}), {}, Estimator()).ability == "runtime r is r 1"
    )
    for said in (None, {}, {"ability": ""}):
        assert spec(request.asking(said), {}, Estimator()).ability == ""
    assert request.asking({"ability": "a"}).job == document and request.asking({"ability": "a"}).asked_by
