"""Devices of one type on one host are one node, whatever comes and goes."""

from __future__ import annotations

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host_nodes import HostNodes
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.model import QueuedJob


def device(name: str, **more: object) -> Device:
    values = {"device_id": name, "device_type": "cpu", "name": "c", "host": name.partition(".")[0], **more}
    return Device.model_validate(values)


def told(nodes: HostNodes, *devices: Device) -> list[ev.Event]:
    return list(nodes.changes({d.device_id: d for d in devices}, 1.0))


def job(*avoid: str) -> QueuedJob:
    return QueuedJob("j", "t", "j", 0.0, 1.0, 9.0, frozenset({"cpu"}), avoid=frozenset(avoid))


def test_a_host_is_a_node_with_its_devices_in_order() -> None:
    """One ``NodeUp`` each, with the names; nothing when nothing has changed."""
    nodes = HostNodes(each_alone=False)
    x0, x1, y0 = device("x.0"), device("x.1"), device("y.0")
    assert told(nodes, x0, x1, y0) == [
        ev.NodeUp(1.0, "x/cpu", "cpu", 2, ("x.0", "x.1")),
        ev.NodeUp(1.0, "y/cpu", "cpu", 1, ("y.0",)),
    ]
    assert told(nodes, x0, x1, y0) == []
    assert nodes.place(["x.1", "x.0"]) == ("x/cpu", (1, 0))
    assert nodes.devices("x/cpu", (1, 0)) == ("x.1", "x.0")


def test_a_device_that_comes_later_changes_no_numbers() -> None:
    """Even if its name comes first; one that goes leaves its number."""
    nodes = HostNodes(each_alone=False)
    told(nodes, device("x.1"))
    told(nodes, device("x.0"), device("x.1"))
    assert nodes.place(["x.1"]) == ("x/cpu", (0,)) and nodes.place(["x.0"]) == ("x/cpu", (1,))
    assert told(nodes, device("x.1")) == [
        ev.NodeUp(1.0, "x/cpu", "cpu", 2, ("x.1", "x.0")),
        ev.HealthFailed(1.0, "x/cpu", 1, None, "its worker is gone"),
    ]


def test_one_unfit_device_leaves_the_others() -> None:
    """It alone is unfit; a host is down when all its workers are gone."""
    nodes = HostNodes(each_alone=False)
    told(nodes, device("x.0"), device("x.1"))
    assert told(nodes, device("x.0", health="quarantined", reason="hot"), device("x.1")) == [
        ev.NodeUp(1.0, "x/cpu", "cpu", 2, ("x.0", "x.1")),
        ev.HealthFailed(1.0, "x/cpu", 0, None, "hot"),
    ]
    assert told(nodes, device("x.0", stopped=True), device("x.1", age_s=99.0)) == [ev.NodeDown(1.0, "x/cpu")]


def test_a_device_that_nobody_saw_alive_is_none() -> None:
    """What was registered long ago is no device of its host: else jobs would wait for it to come back."""
    nodes = HostNodes(each_alone=False)
    assert told(nodes, device("x.0", stopped=True)) == []
    assert told(nodes, device("x.0", stopped=True), device("x.1")) == [
        ev.NodeUp(1.0, "x/cpu", "cpu", 1, ("x.1",))
    ]


def test_what_is_avoided_is_named_by_ids_outside() -> None:
    """A scheduler that counts the devices otherwise avoids the same one."""
    one, other = HostNodes(each_alone=False), HostNodes(each_alone=False)
    x0, x1 = device("x.0"), device("x.1")
    told(one, x0, x1)
    told(other, x1)
    told(other, x0, x1)
    assert one.inward(job("x.1"), [x0, x1]).avoid == {"x.1", "x/cpu:1"}
    assert other.inward(job("x.1"), [x0, x1]).avoid == {"x.1", "x/cpu:0"}
    assert one.outward(job("x.1", "x/cpu:1", "x/cpu:0")).avoid == {"x.0", "x.1"}


def test_each_alone() -> None:
    """For policies that bind jobs to workers: a node each, by the device's id."""
    nodes = HostNodes(each_alone=True)
    assert told(nodes, device("x.0"), device("x.1")) == [
        ev.NodeUp(1.0, "x.0", "cpu", 1, ("x.0",)),
        ev.NodeUp(1.0, "x.1", "cpu", 1, ("x.1",)),
    ]
