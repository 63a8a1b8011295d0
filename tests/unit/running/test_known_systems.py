"""The devices that ``systems`` chooses among: of hand-made clusters, and of this machine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host import Facts, FrameworkVersion, Host
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import LeaseLostError, SubmissionError
from inferbench_tasks.running import known_systems
from inferbench_tasks.running.cluster_abilities import ClusterAbilities, MachineAbilities
from inferbench_tasks.running.fence import Holding, require_chosen
from inferbench_tasks.running.known_systems import NOT_FIRST, of_devices, of_this_machine, system_rows
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.sweep import expand
from inferbench_tasks.submission.systems import Framework

HEAD = "name: x\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 5}}\n"


def device(device_id: str, **more: object) -> Device:
    host = device_id.partition(".")[0]
    values = {
        "device_id": device_id, "device_type": "cpu", "name": "Xeon", "host": host, "home": host, "cores": (0, 1),
        "memory_bytes": 16_600_000_000, **more,
    }  # fmt: skip
    return Device.model_validate(values)


def host(home: str, **more: object) -> Host:
    """As a worker of today tells of it, unless ``more`` leaves something out."""
    facts = {
        "host": home, "cpu": "Xeon", "machine": "x86_64", "kernel": "6", "cores_physical": 2, "cores_logical": 2,
        "cores_usable": 2, "memory_bytes": 16_600_000_000,
        "frameworks": [FrameworkVersion(name="onnxruntime", version="1.23.2", place="here")], **more,
    }  # fmt: skip
    return Host(home=home, versions=own(), facts=Facts.model_validate(facts))


def cluster(devices: Sequence[Device], hosts: Sequence[Host] = ()) -> ClusterAbilities:
    return ClusterAbilities(lambda: devices, hosts=lambda: hosts)


def refused(text: str, abilities: Abilities) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(HEAD + text, "x.yaml", abilities)
    return [str(problem) for problem in caught.value.problems]


def test_a_device_is_what_its_worker_and_its_host_told() -> None:
    """Memory in whole GB of 10^9 bytes (16.6 are 17), cores as it has them, versions with their place."""
    gpu = device("a.gpu-0", device_type="h100", gpu_index=0, name="NVIDIA H100", memory_bytes=85_520_809_984)
    cpu, h100 = of_devices([device("a.cpu"), gpu], [host("a")])
    assert (cpu.device, cpu.arch, cpu.cores, cpu.memory_gb) == ("cpu", "x86_64", 2, 17)
    assert cpu.frameworks == (Framework("onnxruntime", "1.23.2", "here"),) and cpu.unfit == ""
    assert (h100.device, h100.memory_gb) == ("gpu:h100", 86)


def test_hosts_that_joined_before_miss_what_they_did_not_tell() -> None:
    """A document without frameworks, and a worker whose host is not known at all: the constraint is missed."""
    before = host("a").model_dump(mode="json")
    del before["facts"]["frameworks"]
    old = Host.model_validate(before)
    assert old.facts.frameworks is None
    for hosts in ([old], []):
        _, problem = refused("systems: {framework: onnxruntime}\n", cluster([device("a.cpu")], hosts))
        assert problem.endswith("onnxruntime is missed by a.cpu (its worker did not tell)")
    _, problem = refused("systems: {arch: x86_64}\n", cluster([device("a.cpu")]))
    assert problem.endswith("x86_64 is missed by a.cpu (its worker did not tell)")
    (told,) = of_devices([device("a.cpu", capabilities={"machine": "aarch64"})], [])
    assert told.arch == "aarch64", "a CPU's own worker always told of it"


def test_a_device_that_takes_no_job_is_not_chosen() -> None:
    """Its worker is silent, or it is in quarantine; with the reason."""
    gone, sick = device("a.cpu", age_s=61.0), device("b.cpu", health="quarantined", reason="too hot")
    _, problem = refused("systems: {device: cpu}\n", cluster([gone, sick]))
    assert problem == (
        "x.yaml:4: systems: a device that takes jobs is missed by a.cpu (its worker has given no sign of life for "
        "61 s), b.cpu (quarantined: too hot)"
    )


def test_what_was_chosen_must_be_there() -> None:
    """A submission that was decided elsewhere, or by hand: no such device, and one that is another."""
    here = cluster([device("a.cpu")], [host("a")])
    chosen = read_submission_text(HEAD + "systems: {device: cpu}\n", "x.yaml", here).model_dump(mode="json")
    assert read_submission_data(chosen, "again", here).model_dump(mode="json") == chosen
    for devices, words in (
        ([device("b.cpu")], "no device here is a.cpu"),
        ([device("a.cpu", name="EPYC")], "it is not a.cpu"),
    ):
        with pytest.raises(SubmissionError, match=words):
            read_submission_data(chosen, "again", cluster(devices, [host("a"), host("b")]))


def test_a_plan_says_of_each_device_whether_it_was_chosen() -> None:
    """Chosen, fitting but not alike, and missing something."""
    there = cluster(
        [device("a.cpu"), device("b.cpu"), device("c.cpu", cores=(0, 1, 2)), device("d.cpu", cores=(0,))],
        [host(home) for home in "abcd"],
    )
    submission = read_submission_text(HEAD + 'systems: {cores: ">=2"}\n', "x.yaml", there)
    rows = system_rows(submission, expand(submission), there)
    assert [(row.device, row.chosen, row.misses) for row in rows] == [
        ("a.cpu", True, None),
        ("b.cpu", True, None),
        ("c.cpu", False, None),
        ("d.cpu", False, "systems.cores >=2: 1"),
    ]
    assert system_rows(read_submission_text(HEAD, "x.yaml", there), [], there) == []


def test_this_machine_is_one_device_without_gpus() -> None:
    """What `run` chooses from, with the frameworks that are installed: onnxruntime runs here."""
    (cpu,) = of_this_machine()
    assert cpu.device == "cpu" and cpu.cores and cpu.memory_gb and not cpu.unfit
    assert any(one.name == "onnxruntime" and one.place == "here" for one in cpu.frameworks or ())
    there = MachineAbilities(here=lambda: [cpu])
    asked = 'systems: {device: cpu, cores: ">=1", framework: "onnxruntime>=1.0"}\n'
    (job,) = expand(read_submission_text(HEAD + asked, "x.yaml", there))
    assert job.spec.only_on() == (cpu.id,)
    assert refused('systems: {cores: ">=100000"}\n', there)[1].startswith(
        "x.yaml:4: systems.cores: >=100000 is"
    )


def test_of_several_gpus_here_only_a_uuid_tells_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's order need not be the driver's: a result would be another GPU's."""
    gpus = [
        device(f"h.gpu-{i}", device_type="t4", gpu_index=i, capabilities={"uuid": f"GPU-{i}"}) for i in (0, 1)
    ]
    cpu = device("h.cpu")
    monkeypatch.setattr(known_systems, "find", lambda text: cpu if text == "cpu" else gpus[int(text[-1])])

    def unfit(count: int, visible: str | None) -> list[str]:
        monkeypatch.setattr(known_systems, "gpu_count", lambda: count)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return [system.unfit for system in of_this_machine()[1:]]

    assert unfit(1, None) == unfit(1, "0") == [""]
    assert unfit(1, "") == [NOT_FIRST]
    assert unfit(2, None) == unfit(2, "0,1") == [NOT_FIRST, NOT_FIRST]
    assert unfit(2, "GPU-1,GPU-0") == [NOT_FIRST, ""]


def test_a_job_that_was_given_another_device_does_not_measure() -> None:
    """A device that registered after it began to wait; of other jobs nothing is asked."""

    def holding(name: str) -> Holding:
        return Holding(1, (HeldDevice(device_id=name, device_type="cpu", host="h"),))

    require_chosen({"system": {"id": "a.cpu", "alike": []}}, holding("a.cpu"))
    require_chosen({"system": {"id": None, "alike": ["a.cpu", "b.cpu"]}}, holding("b.cpu"))
    require_chosen({"system": None}, holding("c.cpu"))
    require_chosen({}, holding("c.cpu"))
    with pytest.raises(LeaseLostError, match=r"given c\.cpu, .* is for a\.cpu or b\.cpu"):
        require_chosen({"system": {"id": None, "alike": ["a.cpu", "b.cpu"]}}, holding("c.cpu"))
