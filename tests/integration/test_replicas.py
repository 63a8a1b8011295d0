"""``serve.devices: 2``: two real servers on two one-core devices behind a real nginx."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.backends.probes.base import open_probe
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError, LoadError, ServerError
from inferbench_tasks.launchers import processes, records
from inferbench_tasks.monitors import environment
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.perfdb.held import configuration_of
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.fence import Fence
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.stages import collect, load, serve
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.replica_figures import of_replicas
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from tests import nginx
from tests.serving_cases import dense_case, serve_input, to_load
from tests.serving_cases import served as one_served

MISSING = nginx.missing(lua=False)
CORES = sorted(os.sched_getaffinity(0))
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(MISSING), reason=str(MISSING)),
    pytest.mark.skipif(len(CORES) < 2, reason="two replicas need two cores"),
]
LOAD: dict[str, Any] = {
    "arrivals": {"kind": "closed_loop", "concurrency": 4}, "batch_size": 3,
    "duration_s": 2.0, "warmup_s": 0.3, "wait_for_quiet_s": 0.0,
}  # fmt: skip
DEVICES = tuple(
    HeldDevice(device_id=f"h.cpu-{core}", device_type="cpu", host="h", cores=(core,)) for core in CORES[:2]
)
SECOND = f"Replica 2 of 2 (h.cpu-{CORES[1]})" if len(CORES) > 1 else ""


@pytest.fixture(scope="module")
def ceilings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this machine's senders can do alone, which the first load of its kind measures for all."""
    return tmp_path_factory.mktemp("ceilings")


@pytest.fixture
def ctx(tmp_path: Path, ceilings: Path) -> Context:
    """A data directory of its own."""
    (tmp_path / "data" / "cache").mkdir(parents=True)
    (tmp_path / "data" / "cache" / "ceilings").symlink_to(ceilings)
    return Context(data_dir=tmp_path / "data", base_dir=tmp_path)


def asked(folder: Path, run_id: str, load: dict[str, Any] | None = None, **spec: Any) -> serve.Input:
    """Two devices of a core each; no others are spare."""
    inp = serve_input(dense_case(folder), folder, run_id, devices=2, load={**LOAD, **(load or {})}, **spec)
    return inp.model_copy(update={"devices": DEVICES})


def left(run_id: str) -> list[str]:
    """Processes that carry a run's mark, or stand in its folder: nginx writes its title over its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(processes.MARK, "").startswith(f"{run_id}-")
            if marked or f"/runs/{run_id}/" in process.cwd():
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


@contextmanager
def served(folder: Path, ctx: Context, run_id: str, **more: Any) -> Iterator[load.Input]:
    """Both servers behind their balancer, and what ``load`` takes; whatever happens, nothing of it is left."""
    inp = asked(folder, run_id, **more)
    try:
        with one_served(inp, ctx) as output:
            yield to_load(inp, output)
    finally:
        assert left(run_id) == [] and list(settings.servers_dir(ctx.data_dir).iterdir()) == []


@pytest.mark.parametrize(("protocol", "policy"), [("http", "least_conn"), ("grpc", "round_robin")])
def test_both_answer_and_what_they_used_is_told_apart(
    tmp_path: Path, ctx: Context, protocol: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each on its core; the answers are right; the counts add up; sums, devices and settings say that it was two."""
    monkeypatch.setenv("INFERBENCH_INTERFERENCE", "note")
    case = dense_case(tmp_path)
    with served(
        tmp_path, ctx, f"two-{protocol}", load={"protocol": protocol}, balancer={"policy": policy}
    ) as inp:
        out = inp.serve
        assert out.balancer is not None
        on = [psutil.Process(replica.server.pid).cpu_affinity() for replica in out.replicas]
        assert on == [[CORES[0]], [CORES[1]]]
        assert (out.balancer.apart, out.balancer.cores, out.balancer.policy) == (
            False,
            tuple(CORES[:2]),
            policy,
        )
        assert out.endpoint.port not in {replica.endpoint.port for replica in out.replicas}

        probe = open_probe(out.endpoint)
        for first in range(0, 30, 3):  # other rows each time: an answer of another request would show
            rows = case.samples["x"][first : first + 3]
            answer = probe.infer({"x": rows})["scores"]
            np.testing.assert_allclose(answer, case.reference["scores"][first : first + 3], rtol=1e-4)
        probe.close()

        loaded = load.run(inp, ctx)
        checks = {check["name"]: check["ok"] for check in loaded.certificate["checks"]}
        assert checks["replica_counts"] and checks["replica_idle"]
        assert loaded.certificate["figures"]["errors"] == {}
        assert min(loaded.replica_samples) > 0.2 * sum(loaded.replica_samples)
        assert sum(loaded.replica_samples) == 3 * loaded.requests
        assert any("ran on the replicas' cores" in warning for warning in loaded.certificate["warnings"])

        assert loaded.monitors_path is not None
        recording = read_recording(Path(loaded.monitors_path))
        hardware = environment.hardware()
        collected = collect.Input(
            run_id=inp.run_id, job_id=inp.job_id, job=inp.job, generate=inp.generate,
            convert=asked(tmp_path, "x").convert, serve=out, load=loaded,
        )  # fmt: skip
        summary = collect.figures(collected, loaded, recording, hardware)
        figures = summary.model_dump()
        server, before = figures["resources"]["server"], figures["resources"]["balancer"]
        each = [server[f"replica{number}_cpu_s_total"] for number in (1, 2)]
        assert min(each) > 0.0 and server["cpu_s_total"] == pytest.approx(sum(each))
        assert 0.0 < before["cpu_s_total"] < sum(each)
        per_device = figures["per_device"]
        assert per_device["throughput_rps"] == pytest.approx(figures["throughput_rps"] / 2)
        assert [row["samples"] for row in per_device["replicas"]] == list(loaded.replica_samples)

        document = collect.describe(
            collected,
            summary,
            {"hardware": hardware, "system": {}},
            Verdict.judged([]),
            of_replicas(out.replicas, out.balancer, loaded.replica_samples),
        )
        device = document.device.model_dump()
        assert device["name"].startswith("2 x ") and (device["count"], device["cores"]) == (2, 2.0)
        assert [one["device_id"] for one in device["devices"]] == [each.device_id for each in DEVICES]
        assert document.backend.settings["replicas"] == 2
        assert document.backend.settings["balancer"]["policy"] == policy
        one = inp.job.model_copy(
            update={"serve": inp.job.serve.model_copy(update={"devices": 1, "balancer": None})}
        )
        assert configuration_of(job_digest(inp.job), "r", device["name"], 2.0) != configuration_of(
            job_digest(one), "r", device["name"], 2.0
        )


def amid_the_load(inp: load.Input, ctx: Context, pid: int) -> str:
    """What a load of a minute says whose process is killed once it is measured."""
    killed_s: list[float] = []

    def progress(amount: float, total: float | None, text: str) -> None:
        if text.startswith("measuring") and not killed_s:
            killed_s.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(LoadError) as raised:
        load.run(inp, replace(ctx, progress=progress))
    assert time.monotonic() - killed_s[0] < 20.0
    return str(raised.value)


def test_a_replica_that_dies_ends_the_run_with_its_name(tmp_path: Path, ctx: Context) -> None:
    """Long before the load's end; the other one, which could go on, is ended too, and so is the balancer."""
    with served(tmp_path, ctx, "dies", load={"duration_s": 60.0}) as inp:
        text = amid_the_load(inp, ctx, inp.serve.replicas[1].server.pid)
        assert text.startswith(f"{SECOND} ") and "while the load lasted" in text
        assert "records are kept in" in text


def test_a_balancer_that_dies_ends_the_run_too(tmp_path: Path, ctx: Context) -> None:
    """Its processes with it; it is no server's fault."""
    with served(tmp_path, ctx, "falls", load={"duration_s": 60.0}) as inp:
        assert inp.serve.balancer is not None
        assert amid_the_load(inp, ctx, inp.serve.balancer.server.pid).startswith("The balancer ")


def test_a_device_that_is_lost_ends_all_that_stood_on_the_others(
    tmp_path: Path, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the worker of any of them, which finds them by the devices that the job held."""
    monkeypatch.setenv(settings.DEVICES, ",".join(device.device_id for device in DEVICES))
    with served(tmp_path, ctx, "lost") as inp:
        assert len(left("lost")) >= 4  # two servers, nginx's master and workers
        servers = settings.servers_dir(ctx.data_dir)
        assert records.end_worker(servers, DEVICES[1].device_id) == [inp.run_id] * 3
        assert left("lost") == []


def test_a_replica_that_cannot_start_leaves_nothing(tmp_path: Path, ctx: Context) -> None:
    """Said by its number and device."""
    inp = asked(tmp_path, "broken")
    path = Path(inp.convert.model.path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ServerError, match=rf"^Replica 1 of 2 \(h\.cpu-{CORES[0]}\): "):
        serve.run(inp, ctx)
    assert left("broken") == [] and list(settings.servers_dir(ctx.data_dir).iterdir()) == []


def test_without_nginx_nothing_is_started(
    tmp_path: Path, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy is named, with the field."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(nginx_balancer, "_USUAL", ())
    with pytest.raises(InputError, match="apt-get install nginx") as raised:
        serve.run(asked(tmp_path, "bare"), ctx)
    assert raised.value.field == "serve.devices" and left("bare") == []


def test_without_leased_devices_the_cores_are_divided(tmp_path: Path, ctx: Context) -> None:
    """As ``inferbench run`` does, which leases none: evenly, each device by its cores."""
    inp = asked(tmp_path, "here").model_copy(update={"devices": ()})
    output = serve.run(inp, ctx)
    try:
        each = len(CORES) // 2
        assert [len(replica.cores) for replica in output.replicas] == [each, each]
        assert not {*output.replicas[0].cores} & {*output.replicas[1].cores}
    finally:
        records.end_run(settings.servers_dir(ctx.data_dir), "here")
    assert left("here") == []


TEXT = """
name: replicas
model: {kind: file, path: dense.onnx}
serve: {devices: 2}
load:
  arrivals: {kind: closed_loop, concurrency: 4}
  duration_s: 2
  warmup_s: 0.3
  wait_for_quiet_s: 0
"""
JOB, RUN = "replicas|manual__2026-01-01T00:00:00+00:00|000", "manual__2026-01-01T00:00:00+00:00"


def test_a_job_that_holds_two_devices_runs_from_its_first_stage_to_its_result(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stages are told of both by the border; the stored result names them, and each replica's core."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    monkeypatch.setenv("INFERBENCH_INTERFERENCE", "note")
    home = tmp_path / "home"
    home.mkdir()
    dense_case(home)
    cluster, (first, second) = Cluster(perfdb), DEVICES
    for device in DEVICES:
        cluster.register(
            Device(device_id=device.device_id, device_type="cpu", name="c", host="h", cores=device.cores)
        )
    lease = cluster.grant(
        first.device_id, JOB, spec={}, run_id="", now_s=0.0, est_end_s=9.0, others=[second.device_id]
    )
    assert lease is not None
    submission = read_submission_text(TEXT, "x.yaml", INSTALLED, base_dir=home)
    invocation = Invocation.of_dag_run(home, "replicas", RUN)
    outputs: dict[str, dict[str, Any]] = {}
    before = os.sched_getaffinity(0)
    for node in compile_plan(submission).nodes:
        if node.job_index is None:
            continue
        outputs[node.id] = execute_node(
            node,
            {name: outputs[need] for name, need in node.needs.items() if need in outputs},
            invocation=invocation,
            base_dir=home,
            data_dir=home,
            hold_machine=False,
            fence=Fence(first.device_id, JOB) if node.lease and not node.cleans_up else None,
        )
    assert os.sched_getaffinity(0) == before and left(invocation.run_id(0)) == []
    (result,) = perfdb.find_results({"run_id": invocation.run_id(0)})
    document = result.model_dump(mode="json")
    assert document["device"]["name"].startswith("2 x ") and document["device"]["count"] == 2
    servers = document["extensions"]["replicas"]["servers"]
    assert [(one["device_id"], one["cores"]) for one in servers] == [
        (device.device_id, list(device.cores)) for device in DEVICES
    ]
    assert min(one["samples"] for one in servers) > 0
    assert document["backend"]["settings"]["replicas"] == 2
    assert document["summary"]["per_device"]["devices"] == 2
    assert document["summary"]["stages_ms"]["inference"] is not None
    served = next(stage for stage in perfdb.get_run(invocation.run_id(0)).stages if stage.stage == "serve")
    assert list(served.model_dump()["devices"]) == [first.device_id, second.device_id]
