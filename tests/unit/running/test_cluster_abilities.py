"""More devices than there are: an error before anything starts, where the cluster is known."""

from __future__ import annotations

import os

import pytest

from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.cluster.device import LACKS, Device
from inferbench_tasks.contracts.replicas import balancing
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.running import cluster_abilities
from inferbench_tasks.running.cluster_abilities import ClusterAbilities, MachineAbilities
from inferbench_tasks.running.host_lacks import host_lacks
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec

TEXT = "kind: training\nname: x\ndata: {kind: dummy}\ndevices:\n  count: {count}\n  strategy: ddp\n"


def device(name: str, **more: object) -> Device:
    values = {"device_id": name, "device_type": "cpu", "name": "c", "host": name.partition(".")[0], **more}
    return Device.model_validate(values)


def problems(count: int, *devices: Device) -> list[str]:
    return said(TEXT.replace("{count}", str(count)), ClusterAbilities(lambda: devices))


def said(text: str, abilities: Abilities) -> list[str]:
    try:
        read_submission_text(text, "x.yaml", abilities)
    except SubmissionError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_a_host_has_to_have_them_all() -> None:
    """With the line, how many are needed, and those that there are."""
    devices = [
        device("x.0"),
        device("x.1"),
        device("y.0"),
        device("y.1"),
        device("y.g", device_type="t4", gpu_index=0),
    ]
    assert problems(2, *devices) == []
    (problem,) = problems(3, *devices)
    assert problem == (
        "x.yaml:5: devices.count: it needs 3 devices of type cpu on one host; there are 2 on x, 2 on y"
    )
    assert "there are none" in problems(2, device("y.g", device_type="t4", gpu_index=0))[0]


def test_a_cluster_that_is_not_known_refuses_nothing() -> None:
    """The job waits then, with the reason."""
    assert problems(16) == []


def test_a_job_of_one_device_asks_nothing() -> None:
    """It waits for a device, as ever; PerfDB is not looked for."""

    def never() -> list[Device]:
        pytest.fail("the cluster was asked")

    read_submission_text(
        TEXT.replace("{count}", "1").replace("ddp", "single"), "x.yaml", ClusterAbilities(never)
    )


def test_a_machine_has_as_many_devices_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a submission that is run at once: more devices, or more cores for all of their processes, are refused."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert said(TEXT.replace("{count}", "2"), MachineAbilities()) == []
    assert said(TEXT.replace("{count}", "3"), MachineAbilities()) == [
        "x.yaml:5: devices.count: needs 3 devices with a core each; 2 core(s) may be used here"
    ]
    assert said(TEXT.replace("{count}", "2") + "  cores: 1\n", MachineAbilities()) == []
    assert said(TEXT.replace("{count}", "2") + "  cores: 2\n", MachineAbilities()) == [
        "x.yaml:7: devices.cores: needs 4 cores; 2 may be used here"
    ]


def test_replicas_need_a_core_each_and_a_balancer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that is run at once on parts of this machine; a cluster's hosts may have what this one lacks."""
    text = (
        "name: x\nmodel: {kind: zoo, name: digits}\nserve:\n  devices: 3\n"
        "load: {arrivals: {kind: poisson, rate_rps: 10}}\n"
    )
    monkeypatch.setattr(nginx_balancer, "unavailable", lambda protocol: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert said(text, MachineAbilities()) == []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert said(text, MachineAbilities()) == [
        "x.yaml:4: serve.devices: needs 3 devices with a core each; 2 core(s) may be used here"
    ]
    monkeypatch.setattr(nginx_balancer, "unavailable", lambda protocol: f"install nginx for {protocol}")
    assert said(text.replace("3", "2"), MachineAbilities()) == [
        "x.yaml:4: serve.devices: install nginx for http"
    ]
    assert said(text, ClusterAbilities(lambda: [])) == []
    assert said(text, ClusterAbilities(lambda: [device("x.0"), device("x.1")])) == [
        "x.yaml:4: serve.devices: it needs 3 devices of type cpu on one host; there are 2 on x"
    ]


def test_a_cluster_without_a_balancer_is_told_before_anything_starts() -> None:
    """With the devices whose hosts lack it and the remedy; one host that has it is enough; one device needs none."""
    text = (
        "name: x\nmodel: {kind: zoo, name: digits}\nserve:\n  devices: 2\n"
        "load: {arrivals: {kind: poisson, rate_rps: 10}, protocol: %s}\n"
    )
    lacks = {"capabilities": {LACKS: {balancing("grpc"): "built without HTTP/2; install another nginx"}}}
    bare, able = [device("x.0", **lacks), device("x.1", **lacks)], [device("y.0"), device("y.1")]
    assert said(text % "grpc", ClusterAbilities(lambda: bare)) == [
        "x.yaml:4: serve.devices: it needs 2 devices of type cpu on one host with what it asks for (nginx over grpc); "
        "x.0, x.1: built without HTTP/2; install another nginx. Then start the workers there again"
    ]
    assert said(text % "http", ClusterAbilities(lambda: bare)) == []
    assert said(text % "grpc", ClusterAbilities(lambda: [*bare, *able])) == []
    assert said(text % "grpc", ClusterAbilities(lambda: [*bare, able[0]])) != []
    assert said((text % "grpc").replace("devices: 2", "devices: 1"), ClusterAbilities(lambda: bare)) == []


def test_a_worker_tells_what_its_host_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names that jobs ask for it by; nothing where nothing is missing."""
    job = JobSpec.model_validate(
        {
            "name": "x",
            "model": {"kind": "zoo", "name": "digits"},
            "serve": {"devices": 2},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}, "protocol": "grpc"},
        }
    )
    monkeypatch.setattr(nginx_balancer, "unavailable", lambda protocol: None)
    assert host_lacks() == {} and not device("x.0", capabilities={LACKS: host_lacks()}).lacks(
        job.needed_ability()
    )
    monkeypatch.setattr(
        nginx_balancer, "unavailable", lambda protocol: "install" if protocol == "grpc" else None
    )
    told = device("x.0", capabilities={LACKS: host_lacks()})
    assert told.lacks(job.needed_ability()) == "install" and told.lacks(balancing("http")) == ""


def test_gpus_that_nobody_sees_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where NVML finds some, too few of them are; where it finds none, its package may be what is missing."""
    text = TEXT.replace("{count}", "4") + "  kind: gpu\n"
    for there, problems in (
        (0, []),
        (1, ["x.yaml:5: devices.count: needs 4 GPUs; there are 1 here"]),
        (4, []),
    ):
        monkeypatch.setattr(cluster_abilities, "gpu_count", lambda there=there: there)
        assert said(text, MachineAbilities()) == problems


def test_a_chosen_device_binds_the_server_of_a_load_from_another_host() -> None:
    """Its host is to be another one's than some device's, whether that was named or not."""
    text = (
        "name: x\nmodel: {kind: zoo, name: digits}\non_devices: [x.0]\n"
        "load: {arrivals: {kind: poisson, rate_rps: 10}, from: other_host}\n"
    )
    two_hosts = [device("x.0"), device("x.1"), device("y.0")]
    assert said(text, ClusterAbilities(lambda: two_hosts)) == []
    (problem,) = said(text, ClusterAbilities(lambda: two_hosts[:2]))
    assert problem.startswith(
        "x.yaml:4: load.from: it needs a device of type cpu (x.0), and one of type cpu of another"
    )
    one_machine = [device("x.0", boot_id="1"), device("y.0", boot_id="1")]
    assert len(said(text, ClusterAbilities(lambda: one_machine))) == 1


def test_a_load_from_a_named_host_needs_that_one() -> None:
    """By its name or its cluster's, as registered; another name is refused with those that there are."""
    text = (
        "name: x\nmodel: {kind: zoo, name: digits}\n"
        "load: {arrivals: {kind: poisson, rate_rps: 10}, from: %s}\n"
    )
    there = [device("x.0"), device("y.0", cluster="lab")]
    for name in ("x", "y", "lab"):
        assert said(text % name, ClusterAbilities(lambda: there)) == []
    assert said(text % "z", ClusterAbilities(lambda: there)) == [
        "x.yaml:3: load.from: no host or cluster 'z' has a worker; hosts with a worker: x, y; clusters: lab"
    ]
    (alone,) = said(text % "x", ClusterAbilities(lambda: there[:1]))
    assert "one of type cpu of 'x', which is to be another host" in alone


SPREAD = (
    "name: x\nmodel: {kind: zoo, name: digits}\nserve:\n  devices: 2\n  spread: own_hosts\n"
    "load: {arrivals: {kind: poisson, rate_rps: 10}}\n"
)


def test_replicas_on_hosts_of_their_own_need_these() -> None:
    """With the hosts that there are; nginx on one of them is enough, and on none each is named with the remedy."""
    lacks = {"capabilities": {LACKS: {balancing("http"): "install nginx"}}}
    (problem,) = said(SPREAD, ClusterAbilities(lambda: [device("x.0"), device("x.1")]))
    assert problem.startswith("x.yaml:5: serve.spread: it needs a device of type cpu")
    assert "one of type cpu of another host; hosts with a worker: x" in problem
    assert said(SPREAD, ClusterAbilities(lambda: [device("x.0", **lacks), device("y.0")])) == []
    (bare,) = said(SPREAD, ClusterAbilities(lambda: [device("x.0", **lacks), device("y.0", **lacks)]))
    assert "x.0, y.0: install nginx. Then start the workers there again" in bare
    assert said(SPREAD, ClusterAbilities(lambda: [])) == []


def test_chosen_devices_are_those_of_all_replicas() -> None:
    """Unlike those of a load from another host: no replica stands where its user did not want one."""
    three = [device("x.0"), device("x.1"), device("y.0")]
    assert said(SPREAD + "on_devices: [x.0, y.0]\n", ClusterAbilities(lambda: three)) == []
    (problem,) = said(SPREAD + "on_devices: [x.0, x.1]\n", ClusterAbilities(lambda: three))
    assert "of on_devices (x.0, x.1) it needs a device" in problem


def test_a_machine_is_no_several_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a submission that is run at once, which says how many it takes; a missing nginx is none of its matter."""
    monkeypatch.setattr(nginx_balancer, "unavailable", lambda protocol: "install nginx")
    (problem,) = said(SPREAD, MachineAbilities())
    assert problem.startswith("x.yaml:5: serve.spread: replica on another host needs a system")
    assert "with workers of two hosts" in problem
    (problem,) = said(SPREAD.replace("devices: 2", "devices: 3"), MachineAbilities())
    assert "replica, replica_2 on other hosts needs a system with workers of 3 hosts" in problem
