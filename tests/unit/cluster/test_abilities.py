"""What the hosts of devices can't do, and the jobs that need it."""

from __future__ import annotations

import pytest

from inferbench_tasks.cluster.abilities import lacking, matched, unable
from inferbench_tasks.cluster.apart import together
from inferbench_tasks.cluster.device import LACKS, TELLS, Device
from inferbench_tasks.cluster.waiting import why
from inferbench_tasks.contracts.likeness import likeness
from inferbench_tasks.scheduling.model import QueuedJob
from tests.schedulers import device, job

NGINX, REASON = "nginx over http", "nginx is not here: install it"


def without(name: str, reason: str = REASON) -> Device:
    return device(name, host=name[0], capabilities={LACKS: {NGINX: reason}})


def with_it(name: str) -> Device:
    return device(name, host=name[0], capabilities={LACKS: {"nginx over grpc": REASON}})


def two(avoid: frozenset[str] = frozenset()) -> QueuedJob:
    return job("two", n_devices=2, ability=NGINX, avoid=avoid)


def test_devices_are_avoided_for_as_long_as_their_host_can_not() -> None:
    """And no longer; what is avoided for anything else stays so. A worker that told nothing may be able to."""
    devices = [without("a1"), with_it("b1"), device("c1")]
    assert unable(NGINX, devices) == {"a1"} and unable("", devices) == frozenset()
    first = matched(two(avoid=frozenset({"b1"})), devices)
    assert first.avoid == {"a1", "b1"} and first.unable == {"a1"}
    again = matched(first, [with_it("a1"), without("b2")])
    assert again.avoid == {"b1", "b2"} and again.unable == {"b2"}
    assert matched(job("any"), devices) == job("any")


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([without("a1"), without("a2"), with_it("b1"), with_it("b2")], None),
        ([device("a1", host="a"), device("a2", host="a")], None),  # nobody told
        ([without("a1"), with_it("b1")], None),  # no host has two: that is another reason
        ([without("a1"), without("a2"), with_it("b1")], "a1, a2: nginx is not here: install it"),
        (
            [without("a1", "one"), without("a2", "two")],
            "a1: one; a2: two. Then start the workers there again",
        ),
        ([], None),
    ],
)
def test_where_no_host_can_each_is_named_with_its_remedy(devices: list[Device], words: str | None) -> None:
    """Of the devices that would suit."""
    told = lacking(two(), devices)
    assert (told is None) == (words is None)
    assert words is None or (
        told is not None and words in told and "2 devices of type cpu on one host" in told
    )
    assert lacking(job("two", n_devices=2), devices) is None


@pytest.mark.parametrize("told", [None, [NGINX], "all of it"])
def test_what_a_worker_wrote_in_another_form_is_nothing_against_it(told: object) -> None:
    """And ends nobody's loop."""
    one = device("a1", capabilities={LACKS: told, TELLS: told})
    assert unable(NGINX, [one]) == frozenset() and lacking(two(), [one, one]) is None


def test_devices_that_a_job_can_not_have_are_none_that_it_waits_for() -> None:
    """Where the host that can is busy it says so, however many others are free; where its workers are gone, that."""
    lease = {"job": "x", "token": 1, "nonce": "n", "granted_s": 0.0, "est_end_s": 30.0}
    devices = [without("a1"), without("a2"), with_it("b1"), with_it("b2")]
    held = [
        *devices[:2],
        *(Device.model_validate({**one.model_dump(), "lease": lease}) for one in devices[2:]),
    ]
    spec = matched(two(), devices)
    assert "2 of 2 device(s) busy" in why(spec, 0, {one.device_id: one for one in held}, 10.0)
    gone = [*devices[:2], *(one.model_copy(update={"stopped": True}) for one in devices[2:])]
    assert "is running (b1, b2)" in why(spec, 0, {one.device_id: one for one in gone}, 10.0)


def test_of_other_hosts_it_is_not_asked() -> None:
    """Of a job with devices of several hosts its own has to be able; a device of one that is not may be a further one.

    Once it is able it may be the job's own again; one that was chosen against for another reason stays so.
    """
    spread = job("spread", elsewhere=frozenset({"cpu"}), ability=NGINX, not_its_own=frozenset({"z1"}))
    devices = [without("a1"), with_it("b1")]
    first = matched(spread, devices)
    assert first.avoid == first.unable == {"a1"} and first.not_its_own == {"a1", "z1"}
    assert together(first, devices) == ("b1", "a1")
    again = matched(first, [with_it("a1"), without("b1")])
    assert again.not_its_own == {"b1", "z1"} and together(again, [with_it("a1"), without("b1")]) == (
        "a1",
        "b1",
    )
    assert together(matched(spread, [without("a1"), without("b1")]), [without("a1"), without("b1")]) is None


def test_where_no_host_can_a_job_of_several_hosts_says_so() -> None:
    """It has one device of its own, and each that could be it is named with the remedy."""
    spread = job("spread", elsewhere=frozenset({"cpu"}), ability=NGINX)
    told = lacking(matched(spread, [without("a1"), without("b1")]), [without("a1"), without("b1")])
    assert told is not None and "it needs a device of type cpu on one host with what it asks for" in told
    assert "a1, b1: nginx is not here: install it" in told
    assert lacking(matched(spread, [without("a1"), with_it("b1")]), [without("a1"), with_it("b1")]) is None


def test_devices_that_are_to_be_alike_are_avoided_where_they_told_otherwise() -> None:
    """Who told nothing may be so; where all are otherwise it says what each is, and one that comes is had."""
    asked = job("shard", ability=likeness("runtime r", "r 1 on P (avx2)"))
    there = device("a1", host="a", capabilities={TELLS: {"runtime r": "r 1 on P (avx2)"}})
    other = device("b1", host="b", capabilities={TELLS: {"runtime r": "r 1 on Q (avx512)"}})
    assert matched(asked, [there, other, device("c1")]).unable == {"b1"}
    told = lacking(asked, [other])
    assert told is not None and "(runtime r is r 1 on P (avx2)); b1: there it is r 1 on Q (avx512)" in told
    assert lacking(asked, [other, there]) is None and lacking(asked, []) is None
