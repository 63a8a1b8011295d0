"""Which devices are of two hosts, and which of them a chosen device binds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferbench_tasks.cluster.apart import place_of, together, too_few_hosts, why_none
from inferbench_tasks.cluster.device import Device, Lease
from inferbench_tasks.scheduling.model import QueuedJob

CPU = frozenset({"cpu"})


def device(name: str, home: str, boot_id: str = "", host: str = "h", cluster: str = "") -> Device:
    return Device(
        device_id=name, device_type="cpu", name="c", host=host, home=home, boot_id=boot_id, cluster=cluster
    )


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
    assert (together(job(), devices) is not None) == two
    said = too_few_hosts(CPU, CPU, devices)
    assert (said is None) == two
    assert two or "hosts with a worker: h. Have one join" in why_none(job(), devices, 0.0)


def test_a_chosen_device_binds_its_own_alone() -> None:
    """The one elsewhere is any of another host, but one that the job really avoids."""
    devices = [device("x", "a"), device("y", "b"), device("z", "c")]
    others = frozenset({"x", "z"})
    assert together(job(others, others), devices, preferred=("x",)) == ("y", "x")
    assert together(job(others, frozenset({"z"})), devices) == ("y", "z")
    lost = job(others, frozenset())
    assert together(lost, devices) is None and why_none(lost, devices, 0.0).endswith("it may not run on x, z")


def test_a_chosen_device_without_another_host_is_named() -> None:
    """So that who chose it sees that others of its host do not do."""
    devices = [device("x", "a"), device("y", "a"), device("z", "b")]
    others = frozenset({"x", "z"})
    assert together(job(others, others), devices) == ("y", "z")
    said = why_none(job(others, others), devices[:2], 0.0)
    assert said.startswith("it needs a device of type cpu (y), and one of type cpu of another host")
    none = too_few_hosts(CPU, CPU, devices, frozenset({"x", "y", "z"}))
    assert none is not None and "type cpu (which is not there)" in none


def test_the_one_elsewhere_is_of_the_host_or_cluster_that_is_named() -> None:
    """Its own is then of any other one, also where the policy would have taken the named host's."""
    named = device("z", "c", host="three", cluster="lab")
    devices = [device("x", "a", host="one"), device("y", "b", host="two"), named]
    for name, other in (("two", "y"), ("lab", "z"), ("one", "x")):
        spec = replace(job(), elsewhere_on=name)
        found = together(spec, devices, preferred=(other,))
        assert found is not None and found[1] == other and found[0] != other


def test_a_name_that_no_worker_has_is_refused_with_those_there_are() -> None:
    """Hosts and clusters; and where the named one is the only one, what else is needed."""
    devices = [device("x", "a", host="one", cluster="lab"), device("y", "b", host="two")]
    spec = replace(job(), elsewhere_on="nobody")
    assert together(spec, devices) is None
    assert why_none(spec, devices, 0.0) == (
        "no host or cluster 'nobody' has a worker; hosts with a worker: one, two; clusters: lab"
    )
    alone = too_few_hosts(CPU, CPU, devices[:1], elsewhere_on="one")
    assert alone is not None and alone.startswith(
        "it needs a device of type cpu, and one of type cpu of 'one', which is to be another host; hosts"
    )


def test_of_several_other_hosts_it_has_one_device_each() -> None:
    """No two of one host, whatever their number there; with too few hosts it is said how many it takes."""
    devices = [device(name, name[0], host=name[0]) for name in ("x1", "x2", "y1", "y2", "z1")]
    three = replace(job(), n_elsewhere=2)
    assert together(three, devices) == ("x1", "y1", "z1")
    assert together(three, devices, preferred=("y2",)) == ("y2", "x1", "z1")
    assert together(three, devices[:4]) is None
    said = too_few_hosts(CPU, CPU, devices[:4], n_elsewhere=2)
    assert said is not None and said == why_none(three, devices[:4], 0.0)
    assert said.startswith(
        "it needs a device of type cpu, and one of type cpu of each of 2 other hosts; hosts with a worker: x, y."
    )
    assert together(replace(job(), n_elsewhere=3), devices) is None
    lab = [*devices[:4], device("z1", "z", host="z", cluster="lab")]
    assert together(replace(three, elsewhere_on="lab"), lab) is None
    named = too_few_hosts(CPU, CPU, lab, elsewhere_on="lab", n_elsewhere=2)
    assert named is not None and "of each of 2 other hosts of 'lab'" in named


def test_a_lease_tells_which_of_its_hosts_a_device_is_of() -> None:
    """0: the job's own; the others by their place."""
    spec = {"elsewhere": ["cpu"], "n_devices": 1}
    lease = Lease(
        job="j", token=1, nonce="n", granted_s=0.0, est_end_s=9.0, spec=spec, members=("a", "b", "c")
    )
    assert [place_of(lease, name) for name in "abc"] == [0, 1, 2]
