"""Which host's machine stands beside a time."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.measured_on import MeasuredOn, measured_on
from inferbench_tasks.brick_jobs.places import Place

HERE = Place("a", "host-a", frozenset({"a", "a2"}))
OWN = MeasuredOn({"system": {"host": "host-a"}}, {"numpy": "1"}, ("aaa", False))


def shard(home: str, host: str) -> dict[str, Any]:
    """What a shard's measurement tells of its host."""
    environment = {"hardware": {"cores_logical": 12}, "system": {"host": host}}
    return {"home": home, "environment": environment, "versions": {"numpy": "2"}, "git": ["bbb", True]}


def test_times_of_another_host_are_said_to_be_of_that_one() -> None:
    """With the packages and the checkout that ran there, none of this host's."""
    on = measured_on([shard("b", "host-b"), shard("b", "host-b")], {"b"}, HERE, OWN)
    assert on.environment["system"] == {"host": "host-b"}
    assert (on.versions, on.git) == ({"numpy": "2"}, ("bbb", True))


def test_times_of_this_host_are_said_to_be_of_this_one() -> None:
    """Also where another's shard measured what is not used here."""
    assert measured_on([shard("b", "host-b")], {"a"}, HERE, OWN) == OWN


def test_times_of_which_nobody_knows_the_host_are_said_to_be_of_none() -> None:
    """Of before hosts were kept: this host's packages and kernel would be a guess, beside its own times too."""
    for homes in ({""}, {"a", ""}):
        assert measured_on([], homes, HERE, OWN) == MeasuredOn()


def test_another_data_directory_of_this_machine_is_this_machine() -> None:
    """Its packages are its own: where they were not told, or are others, there are none that all was timed with."""
    for homes in ({"a2"}, {"a", "a2"}):
        assert measured_on([], homes, HERE, OWN) == MeasuredOn(OWN.environment)
    told = {"home": "a2", "environment": OWN.environment, "versions": OWN.versions, "git": list(OWN.git)}
    assert measured_on([told], {"a", "a2"}, HERE, OWN) == OWN
    assert measured_on([{**told, "versions": {"numpy": "3"}}], {"a", "a2"}, HERE, OWN).versions == {}
    hosts = measured_on([shard("b", "host-b")], {"a", "a2", "b"}, HERE, OWN).environment["hosts"]
    assert [each["system"]["host"] for each in hosts] == ["host-a", "host-b"]


def test_times_that_another_host_measured_for_another_run_are_not_said_to_be_of_this_one() -> None:
    """Nobody told of that host here: nothing is said, also where some of the times are this host's."""
    for homes in ({"b"}, {"b", "a"}):
        assert measured_on([], homes, HERE, OWN) == MeasuredOn({}, {}, (None, None))


def test_times_of_two_hosts_are_of_both() -> None:
    """Neither stands for the other, and packages of neither are said to be all's."""
    on = measured_on([shard("c", "host-c"), shard("b", "host-b")], {"c", "b"}, HERE, OWN)
    assert [each["system"]["host"] for each in on.environment["hosts"]] == ["host-b", "host-c"]
    assert (on.versions, on.git) == ({}, (None, None))
