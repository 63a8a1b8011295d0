"""``devices.hosts: 2``: what its plan is, who refuses it, and that nothing changes where it does not stand."""

from __future__ import annotations

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.cluster_abilities import ClusterAbilities, MachineAbilities
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.trainers.base import Trainer

TWO = "count: 2, hosts: 2, strategy: ddp"


def text(devices: str, more: str = "") -> str:
    return f"kind: training\nname: x\ndata: {{kind: digits}}\ndevices: {{{devices}}}\n{more}"


def read(devices: str = TWO, abilities: object = INSTALLED, more: str = "") -> SubmissionBase:
    return read_submission_text(text(devices, more), "x.yaml", abilities)  # type: ignore[arg-type]


def job(devices: str) -> TrainingJob:
    (one,) = [planned.spec for planned in compile_plan(read(devices)).jobs]
    assert isinstance(one, TrainingJob)
    return one


def device(name: str, home: str) -> Device:
    host = name.partition(".")[0]
    return Device.model_validate(
        {"device_id": name, "device_type": "cpu", "name": "c", "host": host, "home": home}
    )


def test_the_plan_meets_on_one_host_and_trains_on_the_other() -> None:
    """The job's own host opens the lease, is collected on and cleaned up; the other one leads the training."""
    nodes = compile_plan(read()).nodes
    assert [(node.stage, node.elsewhere) for node in nodes if node.apart and node.lease] == [
        ("meet", False), ("train", True), ("collect", False), ("release", False),
    ]  # fmt: skip
    assert [node.stage for node in nodes if node.opens] == ["meet"]
    assert {node.devices for node in nodes} == {1}


@pytest.mark.parametrize("devices", ["count: 1", "count: 2, strategy: ddp"])
def test_a_training_on_one_host_is_what_it_was(devices: str) -> None:
    """Named or not: the same digest, the same stages, and no device of another host; on two it is another job."""
    plain, named, two = job(devices), job(f"{devices}, hosts: 1"), job(TWO)
    assert job_digest(plain) == job_digest(named) != job_digest(two)
    assert plain.stages_elsewhere() == () and plain.needed_devices() == plain.devices.count
    nodes = compile_plan(read(devices)).nodes
    assert [node.stage for node in nodes] == ["generate", "train", "collect", "release", "analyze"]
    assert not any(node.apart for node in nodes)


def test_each_host_has_half_of_the_processes() -> None:
    """Those of the first host first."""
    devices = job(f"{TWO}, processes: 3").devices
    assert (devices.ranks, devices.ranks_of_host) == (6, 3)
    assert (job("processes: 3, strategy: ddp").devices.ranks_of_host) == 3


def test_a_cluster_of_one_host_refuses_it_with_line_and_remedy() -> None:
    """As any job on two hosts; with a second one it is taken."""
    one = ClusterAbilities(lambda: [device("h.1", "a"), device("h.2", "a")])
    with pytest.raises(SubmissionError) as refused:
        read(abilities=one)
    assert str(refused.value) == (
        "x.yaml:4: devices.hosts: it needs a device of type cpu, and one of type cpu of another host; hosts with a "
        "worker: h. Have one join: inferbench worker --join"
    )
    assert read(abilities=ClusterAbilities(lambda: [device("h.1", "a"), device("i.1", "b")])).name == "x"


def test_without_a_system_it_is_refused_with_what_to_do() -> None:
    """``inferbench run`` has this machine alone."""
    with pytest.raises(
        SubmissionError,
        match="x.yaml:4: devices.hosts: train on another host needs a system with workers of two",
    ):
        read(abilities=MachineAbilities())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("model: {kind: file, name: mine, module: net.py}\n", "model.kind: modules and images of your own"),
    ],
)
def test_what_is_of_one_host_is_refused_with_its_field(more: str, message: str) -> None:
    """Before anything starts."""
    with pytest.raises(SubmissionError, match=message):
        read(more=more)


def test_an_engine_that_starts_on_one_host_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it says that its ranks may be of two."""
    assert not Trainer.over_hosts
    from inferbench_tasks.training.trainers.torchrun import Torchrun

    monkeypatch.setattr(Torchrun, "over_hosts", False)
    with pytest.raises(SubmissionError, match="train.trainer: torchrun starts its processes on one host"):
        read()


def test_nights_hold_one_device() -> None:
    """One of each of two hosts is two."""
    with pytest.raises(InputError, match="a night holds one device"):
        TRAINING.for_nights(read(), "a night")
