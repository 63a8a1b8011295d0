"""Which cores nginx has before replicas, on one host or on several, and what is told of it."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.contracts.handles import Endpoint, ServerHandle
from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.stages.balanced import balanced, usable
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.balancer import BalancerSpec

HANDLE = ServerHandle(launcher="process", pid=2**22 - 1, started_ns=0, log_path="/nowhere", config_path="c")
CORE = min(os.sched_getaffinity(0))
START = nginx_balancer.start
#: A number that no core of this machine has.
NONE = 4_000


def endpoint(port: int) -> Endpoint:
    return Endpoint(protocol="http", host="127.0.0.1", port=port, model_name="m")


def started(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared: list[int],
    spare: list[int],
    policy: str | None = None,
) -> tuple[Balancer, list[int]]:
    """What stands before three replicas, and the ports behind it."""
    start = create_autospec(START, return_value=(HANDLE, endpoint(80), "1.22.1"))
    monkeypatch.setattr(nginx_balancer, "start", start)
    replicas = [
        Replica(number=n, of=3, device_id=f"h.{n}", cores=(n,), server=HANDLE, endpoint=endpoint(n))
        for n in (1, 2, 3)
    ]
    spec = BalancerSpec.model_validate({"policy": policy}) if policy else None
    asked, balancer = balanced(
        "r", spec, folder, replicas, shared=shared, spare=spare, launcher=ProcessLauncher(), servers_dir=folder,
        ctx=Context(folder),
    )  # fmt: skip
    assert asked == endpoint(80)
    assert (start.call_args.kwargs["workers"], start.call_args.kwargs["cores"]) == (
        balancer.workers,
        balancer.cores,
    )
    return balancer, [each.port for each in start.call_args.args[3]]


def test_it_has_cores_of_its_own_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the spare ones those that may be used here and are no replica's, a process for each, before all replicas."""
    balancer, behind = started(tmp_path, monkeypatch, [NONE + 1], [NONE, CORE, NONE + 1], "round_robin")
    assert (balancer.cores, balancer.apart, balancer.workers) == ((CORE,), True, 1)
    assert (balancer.kind, balancer.policy, balancer.version) == ("nginx", "round_robin", "1.22.1")
    assert behind == [1, 2, 3]


def test_without_any_it_shares_those_of_the_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, with as many processes as cores, and no more than replicas; what is spare and none is no core."""
    balancer, _ = started(tmp_path, monkeypatch, [9, 8], [NONE])
    assert (balancer.cores, balancer.apart, balancer.workers) == ((8, 9), False, 2)
    assert balancer.policy == "least_conn"
    balancer, _ = started(tmp_path, monkeypatch, [*range(8)], [*range(8)])
    assert (balancer.cores, balancer.apart, balancer.workers) == (tuple(range(8)), False, 3)


def test_cores_that_the_kernel_gives_are_found_and_nothing_is_changed() -> None:
    """A core that is none is not usable; this thread keeps its own."""
    before = os.sched_getaffinity(0)
    assert usable([CORE, NONE]) == (CORE,) and usable([NONE]) == () and usable([]) == ()
    assert os.sched_getaffinity(0) == before
