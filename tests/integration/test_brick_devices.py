"""Bricks are cut on one host and timed on devices that are like it: what becomes of them where none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.brick_jobs.devices_alike import require_device
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.stages import assign, decompose
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.measure.session import setting
from inferbench_tasks.bricks.runtimes.told import asked_by, told_here
from inferbench_tasks.cluster.device import TELLS
from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context
from tests.schedulers import clock, cluster, holders, job, make, register

__all__ = ["clock", "cluster", "make"]  # fixtures

pytestmark = pytest.mark.integration
CUT_FOR = Setting(processor="P", instruction_set="x86_64-avx2", cores=1, threads=1, runtime="onnxruntime 1")
ALIKE = {"capabilities": {TELLS: {"runtime onnxruntime": "onnxruntime 1 on P (x86_64-avx2)"}}}
NEWER = {"capabilities": {TELLS: {"runtime onnxruntime": "onnxruntime 2 on P (x86_64-avx2)"}}}
OTHER = {"capabilities": {TELLS: {"runtime onnxruntime": "onnxruntime 1 on Q (x86_64-avx512)"}}}


def bricks(**more: object) -> BricksJob:
    """The part that cuts."""
    entries = [{"model": {"kind": "zoo", "name": "digits"}}]
    part = {"role": "cut", "models": 1, "shards": 2}
    return BricksJob.model_validate({"name": "t", "kind": "bricks", "models": entries, "part": part, **more})


def stage_input(data: BricksJob) -> decompose.Input:
    return decompose.Input(run_id="i.001", job_id="j", job=data)


def test_without_a_device_like_this_host_it_ends_before_any_is_taken(cluster: Cluster) -> None:
    """What each is stands there once, with the ways out; one that is alike is enough, or that told nothing, or none."""
    require_device(cluster.db, bricks(), CUT_FOR)
    register(cluster, "a1", "a2", **OTHER)
    register(cluster, "b1", **NEWER)
    with pytest.raises(StageError) as refused:
        require_device(cluster.db, bricks(), CUT_FOR)
    assert "for onnxruntime 1 on P (x86_64-avx2), and no device" in str(refused.value)
    assert "(a1, a2: onnxruntime 1 on Q (x86_64-avx512); b1: onnxruntime 2 on P (x86_64-avx2))" in str(
        refused.value
    )
    assert "worker-on-another-host.md" in str(refused.value)
    for name, more in (("c1", ALIKE), ("d1", {})):
        register(cluster, name, **more)
        require_device(cluster.db, bricks(), CUT_FOR)
        require_device(cluster.db, bricks(on_devices=[name, "a1"]), CUT_FOR)
        with pytest.raises(StageError, match="a1"):
            require_device(cluster.db, bricks(on_devices=["a1"]), CUT_FOR)
        cluster.stop(name)
        with pytest.raises(StageError, match="a1, a2"):
            require_device(cluster.db, bricks(), CUT_FOR)


def test_one_that_is_like_this_host_and_is_stopped_is_named(cluster: Cluster) -> None:
    """To start it again is the nearest way out; of one that told nothing nobody knows."""
    register(cluster, "a1", **OTHER)
    register(cluster, "b1", "b2", **ALIKE)
    register(cluster, "c1")
    for name in ("b1", "b2", "c1"):
        cluster.stop(name)
    with pytest.raises(StageError) as refused:
        require_device(cluster.db, bricks(), CUT_FOR)
    assert "b1, b2: like it, but its worker is stopped: start it again)" in str(refused.value)
    assert "c1" not in str(refused.value)


def test_devices_of_another_kind_are_none_that_it_could_have(cluster: Cluster) -> None:
    """A GPU is not asked what its host's processor is, and is none of those that bricks of a processor wait for."""
    register(cluster, "g1", gpu_index=0, device_type="l4", **OTHER)
    require_device(cluster.db, bricks(), CUT_FOR)
    register(cluster, "a1", **OTHER)
    with pytest.raises(StageError, match=r"\(a1: onnxruntime 1 on Q"):
        require_device(cluster.db, bricks(), CUT_FOR)


def test_nothing_is_cut_for_devices_that_can_not_time_it(
    cluster: Cluster, perfdb_uri: str, tmp_path: Path
) -> None:
    """Where everything is to be timed it ends before a model is looked at, and what an attempt before left is gone, so
    that no shard goes on with it. Where nobody leases devices, it is this machine that times them."""
    register(cluster, "a1", **OTHER)
    leased = Context(data_dir=tmp_path, perfdb_uri=perfdb_uri, leases=True)
    before = leased.run_dir("i.001") / "cutting.json"
    before.write_text("{}")
    looked: list[float] = []
    told = Context(
        data_dir=tmp_path,
        perfdb_uri=perfdb_uri,
        leases=True,
        progress=lambda done, of, what: looked.append(done),
    )
    with pytest.raises(StageError, match="a1: onnxruntime 1 on Q"):
        decompose.run(stage_input(bricks(measure={"reuse": "never"})), told)
    assert not looked and not before.exists()
    shard = bricks(part={"role": "shard", "models": 1, "shards": 2})
    with pytest.raises(StageError, match="were not cut; see the run of decompose"):
        assign.run(assign.Input(run_id="i.002", job_id="j", job=shard), leased)
    here = {"capabilities": {TELLS: told_here()}}
    for context in (Context(data_dir=tmp_path, perfdb_uri=perfdb_uri), leased):
        with pytest.raises(StageError, match="no model can be cut: digits, it was not converted"):
            decompose.run(stage_input(bricks()), context)
        register(cluster, "b1", **here)


def test_a_shard_gets_no_device_of_another_kind(cluster: Cluster, make: type) -> None:
    """Though that alone is free, or registers while it waits; people see why, and it has the first that is alike."""
    register(cluster, "a1", **OTHER)
    register(cluster, "b1", **ALIKE)
    scheduler: Dispatcher = make()
    for number in range(2):
        scheduler.submit(job(f"shard{number}", ability=asked_by(CUT_FOR)), f"run-{number}")
    scheduler.tick()
    first = holders(cluster)["b1"]
    register(cluster, "c1", **NEWER)
    scheduler.tick()
    assert first is not None and holders(cluster) == {"a1": None, "b1": first, "c1": None}
    register(cluster, "d1", **ALIKE)
    scheduler.tick()
    assert {holders(cluster)[name] for name in ("b1", "d1")} == {"dag|shard0|000", "dag|shard1|000"}


def test_where_none_is_alike_a_shard_waits_and_says_what_they_are(cluster: Cluster, make: type) -> None:
    """As where the one that was is gone since the models were cut."""
    register(cluster, "a1", **OTHER)
    scheduler: Dispatcher = make()
    scheduler.submit(job("shard", ability=asked_by(CUT_FOR)), "run")
    assert scheduler.tick() == [] and scheduler.tick() == []
    (why,) = scheduler.aside.values()
    assert "a1: there it is onnxruntime 1 on Q (x86_64-avx512)" in why and holders(cluster) == {"a1": None}


def test_a_shard_that_is_run_again_waits_for_the_worker_that_is_alike(cluster: Cluster, make: type) -> None:
    """Also where a scheduler that began meanwhile never saw it: beside a device of another kind it is not given up."""
    register(cluster, "a1", **OTHER)
    register(cluster, "b1", **ALIKE)
    cluster.stop("b1")
    scheduler: Dispatcher = make()
    again = job("shard", ability=asked_by(CUT_FOR), attempt=1)
    scheduler.submit(again, "run")
    assert scheduler.tick() == [] and scheduler.tick() == []
    assert list(scheduler.aside.values()) == ["no worker of a device with what it asks for is running (b1)"]
    register(cluster, "b1", **ALIKE)
    scheduler.tick()
    assert holders(cluster) == {"a1": None, "b1": again.job_id} and not scheduler.aside


def test_the_hosts_own_device_is_alike(cluster: Cluster) -> None:
    """What is cut here can be timed here, whatever this host is."""
    register(cluster, "a1", capabilities={TELLS: told_here()})
    require_device(cluster.db, bricks(), setting([0], 1))
