"""Which devices are of two hosts, and which of them a chosen device binds."""

from __future__ import annotations

import pytest

from inferbench_tasks.cluster.apart import pair, too_few_hosts, why_none
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.scheduling.model import QueuedJob

CPU = frozenset({"cpu"})


def device(name: str, home: str, boot_id: str = "") -> Device:
    return Device(device_id=name, device_type="cpu", name="c", host="h", home=home, boot_id=boot_id)


def job(avoid: frozenset[str] = frozenset(), not_its_own: frozenset[str] = frozenset()) -> QueuedJob:
    return QueuedJob("j", "t", "k", 0.0, 1.0, 9.0, CPU, avoid=avoid, elsewhere=CPU, not_its_own=not_its_own)


@pytest.mark.parametrize(
    ("homes", "boots", "two"),
    [
        ("ab", ("1", "1"), False),
        ("ab", ("1", "2"), True),
        ("aa", ("1", "2"), False),
        ("ab", ("", "1"), True),
        ("ab", ("", ""), True),
    ],
)
def test_one_machine_is_no_two_hosts(homes: str, boots: tuple[str, str], two: bool) -> None:
    """Whatever data directories its workers have; by these alone where a worker told no boot id."""
    devices = [device(name, home, boot) for name, home, boot in zip("xy", homes, boots, strict=True)]
    assert (pair(job(), devices) is not None) == two
    said = too_few_hosts(CPU, CPU, devices)
    assert (said is None) == two
    assert two or "hosts with a worker: h. Have one join" in why_none(job(), devices, 0.0)


def test_a_chosen_device_binds_its_own_alone() -> None:
    """The one elsewhere is any of another host, but one that the job really avoids."""
    devices = [device("x", "a"), device("y", "b"), device("z", "c")]
    others = frozenset({"x", "z"})
    assert pair(job(others, others), devices, preferred="x") == ("y", "x")
    assert pair(job(others, frozenset({"z"})), devices) == ("y", "z")
    lost = job(others, frozenset())
    assert pair(lost, devices) is None and why_none(lost, devices, 0.0).endswith("it may not run on x, z")


def test_a_chosen_device_without_another_host_is_named() -> None:
    """So that who chose it sees that others of its host do not do."""
    devices = [device("x", "a"), device("y", "a"), device("z", "b")]
    others = frozenset({"x", "z"})
    assert pair(job(others, others), devices) == ("y", "z")
    said = why_none(job(others, others), devices[:2], 0.0)
    assert said.startswith("it needs a device of type cpu (y), and one of type cpu of another host")
    none = too_few_hosts(CPU, CPU, devices, frozenset({"x", "y", "z"}))
    assert none is not None and "type cpu (which is not there)" in none
