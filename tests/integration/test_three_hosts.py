"""Three hosts: a leader, and two that joined it by a token, each with an address, data and cores of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.cluster.device import TELLS
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.training.result import TrainingResult
from tests import nginx
from tests.joined_hosts import Joined, JoinedHost, joined_hosts
from tests.warm import warm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two devices need two cores"),
]
SWEEP = """
name: sweep
model: {kind: zoo, name: digits}
load: {arrivals: {kind: constant, rate_rps: 30}, duration_s: 2, warmup_s: 0.5, wait_for_quiet_s: 0}
sweep: {load.arrivals.rate_rps: [30, 35, 40]}
"""
AWAY = """
name: away
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 40}, duration_s: 4, warmup_s: 0.5, wait_for_quiet_s: 0, from: other_host}
"""
SPREAD = """
name: %s
model: {kind: zoo, name: digits}
serve: {devices: 2, spread: own_hosts}
load: {arrivals: {kind: poisson, rate_rps: 40}, duration_s: %s, warmup_s: 0.5, wait_for_quiet_s: 0}
"""
BOTH = """
kind: training
name: %s
data: {kind: digits, samples: 480}
train: {batch_size: 16, warmup_steps: 4, rounds: %d}
devices: {count: 2, hosts: 2, strategy: ddp}
"""
BRICKS = """
kind: bricks
name: bricks
models: [{model: {kind: zoo, name: digits}}]
measure: {runs: 15, rounds: 3, shard_s: 5}
"""
OWN_IMAGES = """
kind: training
name: own-images
model: {name: resnet-18}
data: {kind: folder, path: images, samples: 24, image_size: 32}
train: {batch_size: 4, warmup_steps: 1, rounds: 3}
"""
NAMES = ("host-a", "host-b")
NO_NGINX = nginx.missing(lua=False)


def write(folder: Path) -> None:
    texts = {
        "sweep": SWEEP, "away": AWAY, "both": BOTH % ("both", 3), "lasting": BOTH % ("lasting", 14),
        "spread": SPREAD % ("spread", 4), "long-spread": SPREAD % ("long-spread", 30), "bricks": BRICKS,
        "own-images": OWN_IMAGES,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    for number in range(30):
        path = folder / "images" / ("cats", "dogs", "owls")[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40, 40, 3), number, np.uint8)).save(path)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    """Leader and two hosts."""
    base = tmp_path_factory.mktemp("hosts")
    (base / "leader").mkdir()
    warm(base / "leader", tmp_path_factory)
    with joined_hosts(base, NAMES, write) as running:
        yield running


def finished(joined: Joined, name: str) -> None:
    run = joined.driver.trigger(name)
    said = joined.driver.ended(run, timeout_s=400)
    assert said == ["success"], (joined.driver.tasks(run), [host.said() for host in joined.hosts])


def test_a_sweep_runs_on_both_hosts(joined: Joined) -> None:
    """Three jobs, each once, on devices of both; none of them on the leader, which has none."""
    finished(joined, "sweep")
    results = joined.driver.results("sweep")
    assert len(results) == 3 == len({result.job_id for result in results})
    assert all(result.summary.model_dump()["error_ratio"] == 0.0 for result in results)
    home_of = {device.device_id: device.home for device in Cluster(joined.driver.db).devices()}
    runs = joined.driver.db.find_runs({"submission.name": "sweep"})
    where = {home_of[device] for run in runs for stage in run.stages for device in stage.devices}
    assert where == {settings.home_id(host.home) for host in joined.hosts}


def test_bricks_are_cut_on_the_leader_and_timed_on_hosts_that_joined(joined: Joined) -> None:
    """Networks, inputs and the whole model come to the device's host; each result says which host that was, and no
    path of the leader's is in what it got. What they were cut for was asked of the devices, which tell it."""
    finished(joined, "bricks")
    db, leader = joined.driver.db, joined.base / "leader"
    results = db.results_of(BricksResult, {"submission.name": "bricks"})
    of = {role: [result for result in results if result.role == role] for role in ("model", "cut", "shard")}
    (model,), (cut,) = of["model"], of["cut"]
    (predicted,) = model.predictions
    assert predicted.measured is not None and predicted.measured.ms > 0
    assert predicted.coverage_ratio == 1.0 and predicted.constructed.ms > 0
    assert sum(shard.counts["stored"] for shard in of["shard"]) == cut.counts["todo"] > 1
    timed = [shard for shard in of["shard"] if shard.counts["stored"]]
    hosts = {shard.environment["system"]["host"] for shard in timed}
    assert hosts <= set(NAMES) and cut.environment["system"]["host"] not in NAMES
    assert {one["system"]["host"] for one in model.environment.get("hosts", [model.environment])} == hosts
    runs = db.find_runs({"submission.name": "bricks", "job.part.role": "shard"})
    outputs = [stage.output or {} for run in runs for stage in run.stages]
    assert outputs and str(leader) not in str(outputs)
    assert not list(leader.glob("bricks/sessions/*")), "nothing was timed on the leader"
    (told,) = {device.capabilities[TELLS]["runtime onnxruntime"] for device in Cluster(db).devices()}
    decisions = "".join(path.read_text() for path in leader.glob("scheduling/*.jsonl"))
    assert told.startswith("onnxruntime ") and json.dumps(f"runtime onnxruntime is {told}") in decisions


def test_a_training_on_images_of_the_user_s_runs_on_a_host_that_joined(joined: Joined) -> None:
    """The images that were chosen come there as an artifact; with the submissions come two, and the result says that
    it read copies."""
    finished(joined, "own-images")
    (own,) = joined.driver.db.results_of(TrainingResult, {"submission.name": "own-images"})
    assert own.summary is not None and own.data["brought"] and own.data["samples"] == 24
    assert any("where they were brought to" in warning for warning in own.certificate["warnings"])
    (host,) = [each for each in joined.hosts if each.name == own.environment["system"]["host"]]
    assert len(list(host.home.glob("cache/fetched/*/*/*.png"))) == 24
    assert len(list(host.home.glob("joined/**/images/*/*.png"))) == 2


# Of a load: tests/integration/test_load_from_other_host.py; of a joined host's way to the other, and their link: below.
@pytest.mark.long
def test_a_load_comes_from_the_other_host(joined: Joined) -> None:
    """Over the wire between the two, which is measured before and after."""
    finished(joined, "away")
    (away,) = joined.driver.results("away")
    link = away.extensions["client_host"]["link"]
    homes = {settings.home_id(host.home) for host in joined.hosts}
    for when in ("before", "after"):
        assert {link[when][end]["home"] for end in ("near", "far")} == homes
    assert away.summary.model_dump()["error_ratio"] == 0.0


@pytest.mark.skipif(bool(NO_NGINX), reason=str(NO_NGINX))
def test_a_replica_stands_on_each_host(joined: Joined) -> None:
    """Behind nginx on one of them, by what the leader's gateway lets through; both answered."""
    finished(joined, "spread")
    (spread,) = joined.driver.results("spread")
    servers = spread.extensions["replicas"]["servers"]
    assert {server["host"] for server in servers} == set(NAMES)
    assert min(server["samples"] for server in servers) > 0
    (other,) = spread.extensions["replicas"]["hosts"]
    homes = {settings.home_id(host.home) for host in joined.hosts}
    for when in ("before", "after"):
        assert {other["link"][when][end]["home"] for end in ("near", "far")} == homes
    summary = spread.summary.model_dump()
    assert summary["error_ratio"] == 0.0 and summary["resources"]["server"]["cpu_s_total"] > 0
    # The hosts' workers end what stood there.

    def left() -> list[Path]:
        return [path for host in joined.hosts for path in (host.home / "servers").glob("*.json")]

    joined.driver.until(lambda: not left(), lambda: str(left()), 20)


@pytest.mark.long  # a host that dies is below
@pytest.mark.skipif(bool(NO_NGINX), reason=str(NO_NGINX))
def test_replicas_whose_other_host_dies_run_again_once_it_is_back(joined: Joined) -> None:
    """The load on the first host ends, for what the one that is left answers is another service; then it is measured
    once, from its beginning."""
    driver = joined.driver
    run = driver.trigger("long-spread")

    def loaded() -> list[JoinedHost]:
        return [host for host in joined.hosts if list(host.home.glob("runs/long-spread-*/load/*.spool"))]

    driver.until(lambda: bool(loaded()), lambda: str(driver.tasks(run)), 300)
    (first,) = loaded()
    (other,) = [host for host in joined.hosts if host is not first]
    other.kill()
    driver.until(lambda: driver.tasks(run)["serve"]["try_number"] == 2, lambda: str(driver.tasks(run)), 120)
    other.start()
    driver.succeeded(run, timeout_s=400)
    (result,) = driver.results("long-spread")
    assert {server["host"] for server in result.extensions["replicas"]["servers"]} == set(NAMES)


@pytest.mark.long  # the one after it runs on both too, in the end
def test_a_training_runs_on_both_hosts(joined: Joined) -> None:
    """A rank on each, by what the leader's gateway lets through."""
    finished(joined, "both")
    (both,) = joined.driver.db.results_of(TrainingResult, {"submission.name": "both"})
    assert [host["ranks"] for host in both.extensions["hosts"]] == [[0], [1]]
    assert both.summary is not None and both.summary.synchronised["steps"] == 33


def ranks_of(*hosts: JoinedHost) -> list[int]:
    """The processes of ranks whose order lies in one of their data directories."""
    words = [(p.pid, " ".join(p.info["cmdline"] or [])) for p in psutil.process_iter(["cmdline"])]
    homes = [str(host.home) for host in hosts]
    return [pid for pid, line in words if "rank_main" in line and any(home in line for home in homes)]


def test_a_training_whose_other_host_dies_runs_again_once_it_is_back(joined: Joined) -> None:
    """What remains of it ends, for without two hosts there is no such training; then it is measured once, from its
    beginning."""
    driver, (stays, dies) = joined.driver, joined.hosts
    run = driver.trigger("lasting")
    driver.until(lambda: ranks_of(stays) and ranks_of(dies), lambda: str(driver.tasks(run)), 300)
    driver.until(
        lambda: list(joined.base.glob("host-*/runs/lasting-*/training/progress.json")), "no epoch ended"
    )
    dies.kill()
    driver.until(lambda: not ranks_of(stays, dies), lambda: str(ranks_of(stays, dies)), 120)
    assert not driver.db.results_of(TrainingResult, {"submission.name": "lasting", "summary": {"$ne": None}})
    dies.start()
    driver.succeeded(run, timeout_s=400)
    (result,) = driver.db.results_of(TrainingResult, {"submission.name": "lasting", "summary": {"$ne": None}})
    assert result.summary is not None and result.summary.synchronised["steps"] == 14 * 11
    assert [host["ranks"] for host in result.extensions["hosts"]] == [[0], [1]]


def test_nothing_is_left_on_any_host(joined: Joined) -> None:
    """No lease, no server; each decision of the scheduler follows from what it knew."""
    joined.driver.all_is_well()
    for host in joined.hosts:
        assert not list((host.home / "servers").glob("*.json"))
