"""Stages on another host: the plan says which, and refuses those that can't be; who can't have two hosts says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.pipelines.base import PIPELINES
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.provider.on_device import LeasedTask, leased_task
from inferbench_tasks.provider.queues import CONFIG
from inferbench_tasks.running.cluster_abilities import ClusterAbilities, MachineAbilities
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.reader import read_submission_text
from tests.apart_pipeline import install, submission


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is installed for the time of a test."""
    monkeypatch.syspath_prepend(install(tmp_path))
    PIPELINES.__dict__.pop("_plugins", None)
    yield
    PIPELINES.__dict__.pop("_plugins", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "inferbench_apart"]:
        del sys.modules[name]


def read(look: str = "other_host", abilities: object = INSTALLED) -> SubmissionBase:
    return read_submission_text(submission("x", look), "x.yaml", abilities)  # type: ignore[arg-type]


def nodes(look: str = "other_host") -> tuple[Node, ...]:
    return compile_plan(read(look)).nodes


def test_the_plan_says_which_stage_runs_on_the_other_host() -> None:
    """Of a job on two hosts each node says so; one on its own host has neither mark."""
    assert [(n.stage, n.apart, n.elsewhere) for n in nodes()] == [
        ("begin", True, False), ("look", True, True), ("end", True, False),
    ]  # fmt: skip
    assert not any(n.apart or n.elsewhere for n in nodes("here"))


def test_the_executor_is_told() -> None:
    """By the task's configuration, which is read back as it was; that of a job on one host is what it ever was."""
    plan = compile_plan(read())
    told = [leased_task(node, plan) for node in plan.nodes]
    assert [task and task.elsewhere for task in told] == [False, True, False]
    assert [LeasedTask.of(task.config()) for task in told if task] == told
    here = compile_plan(read("here"))
    for node in here.nodes:
        task = leased_task(node, here)
        assert task is not None and "elsewhere" not in task.config()[CONFIG]


@pytest.mark.parametrize("stages", [("begin",), ("end",), ("look", "nowhere")])
def test_a_stage_that_opens_or_closes_the_lease_stays(
    stages: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that the job does not have is none; those that may go are named."""
    read_one = read()
    monkeypatch.setattr(type(read_one).job, "stages_elsewhere", lambda self: stages)
    with pytest.raises(InputError, match=r"only stages between .* on the device can: look"):
        compile_plan(read_one)


def test_a_stage_may_run_on_a_second_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan and the executor are told which; hosts are numbered without a gap, and each has a stage."""
    read_one = read()
    schema = type(read_one).job
    monkeypatch.setattr(schema, "hosts_elsewhere", lambda self: {"look": 2})
    with pytest.raises(InputError, match=r"number other hosts from 1 on .* run on \[2\]"):
        compile_plan(read_one)
    monkeypatch.setattr(schema, "hosts_elsewhere", lambda self: {"look": 1, "other": 2})
    with pytest.raises(InputError, match=r"number other hosts from 1 on .* run on \[1\]"):
        compile_plan(read_one)
    monkeypatch.undo()
    assert read_one.n_elsewhere() == 1 and read("here").n_elsewhere() == 0
    node = next(node for node in compile_plan(read_one).nodes if node.stage == "look")
    task = leased_task(replace(node, elsewhere=2), compile_plan(read_one))
    assert task is not None and task.elsewhere == 2 and LeasedTask.of(task.config()) == task


def test_several_devices_of_its_own_and_one_elsewhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lease is of both kinds."""
    read_one = read()
    monkeypatch.setattr(type(read_one).job, "needed_devices", lambda self: 2)
    with pytest.raises(InputError, match="holds one of its own"):
        compile_plan(read_one)


def device(name: str, home: str, **more: object) -> Device:
    values = {
        "device_id": name,
        "device_type": "cpu",
        "name": "c",
        "host": name.partition(".")[0],
        "home": home,
        **more,
    }
    return Device.model_validate(values)


def known(devices: Sequence[Device]) -> ClusterAbilities:
    return ClusterAbilities(lambda: devices)


def test_a_cluster_of_one_host_refuses_it_with_line_and_remedy() -> None:
    """Two data directories are two hosts, also of one name; a cluster that is not known says nothing."""
    one = ClusterAbilities(lambda: [device("h.1", "a"), device("h.2", "a")])
    with pytest.raises(SubmissionError) as refused:
        read(abilities=one)
    assert str(refused.value) == (
        "x.yaml:3: look: it needs a device of type cpu, and one of type cpu of another host; hosts with a worker: h. "
        "Have one join: inferbench worker --join"
    )
    assert read("here", one).name == "x"
    for devices in ([], [device("h.1", "a"), device("h.2", "b")], [device("h.1", ""), device("i.1", "")]):
        assert read(abilities=known(devices)).name == "x"


def test_the_other_host_s_device_counts_by_its_own_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU here and a CPU there: two CPUs are not enough, nor a GPU and a CPU of one host."""
    gpu = device("g.gpu", "a", device_type="t4", gpu_index=0)
    schema = type(read()).job
    monkeypatch.setattr(schema, "needed_device", lambda self: DeviceSpec("gpu"))
    for devices in ([device("a.1", "a"), device("b.1", "b")], [gpu, device("a.1", "a")]):
        with pytest.raises(SubmissionError, match="of another host; hosts with a worker"):
            read(abilities=known(devices))
    assert read(abilities=ClusterAbilities(lambda: [gpu, device("b.1", "b")])).name == "x"


def test_without_a_system_it_is_refused_with_what_to_do() -> None:
    """``inferbench run`` has this machine alone."""
    with pytest.raises(
        SubmissionError, match=r"x.yaml:3: look: look on another host needs a system with workers of two"
    ):
        read(abilities=MachineAbilities())
    assert read("here", MachineAbilities()).name == "x"


@pytest.mark.airflow
def test_an_executor_without_devices_refuses_it(tmp_path: Path) -> None:
    """Airflow's own would run both on whichever host, and call one of them another."""
    from inferbench_tasks.provider.render import render

    with pytest.raises(InputError, match="only InferBench's executor leases"):
        render(read(), base_dir=tmp_path, one_at_a_time=True)
    assert render(read("here"), base_dir=tmp_path, one_at_a_time=True).dag_id == "x"
    assert {task.task_id for task in render(read(), base_dir=tmp_path, one_at_a_time=False).tasks} == {
        "job-000.begin", "job-000.look", "job-000.end",
    }  # fmt: skip


def test_jobs_of_every_kind_here_stay_on_their_host() -> None:
    """Unless their schema says otherwise."""
    assert JobBase.stages_elsewhere(read("here")) == ()
    assert str(read().needed_elsewhere()) == "cpu"
