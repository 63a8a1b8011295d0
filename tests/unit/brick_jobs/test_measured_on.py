"""Which host's machine stands beside a time."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.measured_on import measured_on
from inferbench_tasks.monitors import environment


def shard(home: str, host: str, cores: int, allowed: list[int]) -> dict[str, Any]:
    """What a shard's measurement tells of its host."""
    hardware = {"cores_logical": cores, "cores_allowed": allowed, "cpu_limit_cores": None}
    return {"home": home, "environment": {"hardware": hardware, "system": {"host": host}}}


def test_times_of_another_host_are_said_to_be_of_that_one() -> None:
    """With all its cores, as of this one, though its device's worker had one."""
    on = measured_on([shard("b", "host-b", 12, [3]), shard("b", "host-b", 12, [4])], "a")
    assert on.environment["system"] == {"host": "host-b"} and on.cores == 12.0


def test_times_of_this_host_are_said_to_be_of_this_one() -> None:
    """Also where no shard was measured, or one told no host, as those of before."""
    cases: list[list[dict[str, Any]]] = [[], [shard("a", "pinned", 1, [0])], [{"stored": []}]]
    for shards in cases:
        on = measured_on(shards, "a")
        assert on.environment["hardware"] == environment.hardware()
        assert on.cores == environment.granted_cores(environment.hardware())


def test_times_of_two_hosts_are_of_both() -> None:
    """Neither stands for the other; a number of cores that they don't share is none."""
    on = measured_on([shard("c", "host-c", 8, [0]), shard("b", "host-b", 12, [0])], "a")
    assert [each["system"]["host"] for each in on.environment["hosts"]] == ["host-b", "host-c"]
    assert on.cores is None
    assert measured_on([shard("c", "c", 8, [0]), shard("b", "b", 8, [1])], "a").cores == 8.0
