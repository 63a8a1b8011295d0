"""Stages ``serve`` and ``release`` with real servers: what they report, and how they fail."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.http

from inferbench_tasks.backends.probes.base import open_probe
from inferbench_tasks.errors import CancelledError, InferBenchError, InputError, ServerError
from inferbench_tasks.launchers import processes
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.stages import release, serve
from inferbench_tasks.stages.base import Context
from tests.serving_cases import Case, dense_case, serve_input

pytestmark = pytest.mark.integration


def end(inp: serve.Input, output: serve.Output | None, ctx: Context) -> bool:
    """Run ``release``."""
    given = release.Input(run_id=inp.run_id, job_id=inp.job_id, job=inp.job, serve=output)
    return release.run(given, ctx).stopped


def leftovers(run_id: str) -> list[int]:
    """Processes that carry a run's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(processes.MARK, "").startswith(f"{run_id}-"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A data directory of its own."""
    return Context(data_dir=tmp_path / "data")


def test_serve_gives_a_live_checked_server_and_release_ends_it(tmp_path: Path, ctx: Context) -> None:
    """Endpoint, settings, cold start and the exact configuration; afterwards nothing is left."""
    case = dense_case(tmp_path)
    inp = serve_input(
        case,
        tmp_path,
        "serve-ok",
        threads=2,
        instances=2,
        batching={"max_batch_size": 4},
        load={"batch_size": 4},
    )
    output = serve.run(inp, ctx)
    with tritonclient.http.InferenceServerClient(output.endpoint.url) as client:
        x = case.samples["x"][:2]
        given = tritonclient.http.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        answer = client.infer(output.endpoint.model_name, [given]).as_numpy("scores")
    np.testing.assert_allclose(answer, case.reference["scores"][:2], rtol=1e-5)
    assert output.difference_ratio < 1e-5
    cold = output.cold_start
    assert min(cold.process_ms, cold.model_load_ms, cold.first_answer_ms) > 0
    assert cold.total_ms == pytest.approx(cold.process_ms + cold.model_load_ms + cold.first_answer_ms)
    assert output.backend.settings["env"]["OMP_NUM_THREADS"] == "2"
    assert output.backend.settings["instances"] == 2
    environ = psutil.Process(output.server.pid).environ()
    assert (environ["OMP_NUM_THREADS"], environ["OMP_WAIT_POLICY"]) == ("2", "PASSIVE")
    kept = json.loads(Path(output.server.config_path).read_text())
    assert (kept["threads"], kept["batching"]["max_batch_size"]) == (2, 4)
    assert end(inp, output, ctx)
    assert leftovers("serve-ok") == []
    assert not end(inp, output, ctx)


def test_the_answer_is_checked_over_grpc_when_the_load_speaks_grpc(tmp_path: Path, ctx: Context) -> None:
    """The endpoint is of the load's protocol."""
    inp = serve_input(
        dense_case(tmp_path), tmp_path, "serve-grpc", load={"protocol": "grpc", "batch_size": 3}
    )
    output = serve.run(inp, ctx)
    assert output.endpoint.protocol == "grpc"
    probe = open_probe(output.endpoint)
    statistics = probe.statistics()
    probe.close()
    assert statistics is not None
    assert statistics["inference_count"] == 1 + 3
    assert end(inp, output, ctx)


def corrupt(case: Case) -> None:
    """Cut the model's file in the middle."""
    path = Path(case.model.path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def unknown_operator(case: Case) -> None:
    """A model with an operator that nobody knows."""
    import onnx

    model = onnx.load(case.model.path)
    model.graph.node[0].op_type = "FrobnicateLayer"
    onnx.save(model, case.model.path)


def wrong_weights(case: Case) -> None:
    """A model that answers something else than its source."""
    case.reference["scores"] += 0.5


def nan_answers(case: Case) -> None:
    """A model whose weights are NaN."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(case.model.path)
    broken = np.full((6, 4), np.nan, np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(broken, "w"))
    onnx.save(model, case.model.path)


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (
            lambda case: Path(case.model.path).unlink(),
            r"exit code 1 while starting; the end of .*can't be loaded",
        ),
        (corrupt, "exit code 1 while starting; the end of .*can't be loaded.*Protobuf parsing failed"),
        (unknown_operator, "FrobnicateLayer"),
        (wrong_weights, "Output scores of the server's first answer differs from the source model's by"),
        (nan_answers, "4 values that are NaN or infinite"),
    ],
)
def test_a_broken_model_stops_the_run_and_leaves_nothing(
    tmp_path: Path, ctx: Context, breaks: Callable[[Case], None], message: str
) -> None:
    """The error has the reason from the server's log, and no process survives."""
    case = dense_case(tmp_path)
    breaks(case)
    with pytest.raises(ServerError, match=f"(?s){message}"):
        serve.run(serve_input(case, tmp_path, "serve-broken"), ctx)
    assert leftovers("serve-broken") == []
    assert list((ctx.data_dir / "servers").iterdir()) == []


def test_a_model_that_is_never_ready_runs_into_the_timeout(tmp_path: Path, ctx: Context) -> None:
    """The hard limit is the submission's, and named, whether its server answers already or, on a busy machine, not."""
    case = dense_case(tmp_path)
    path = Path(case.model.path)
    path.unlink()
    os.mkfifo(path)  # reading it blocks forever
    with pytest.raises(ServerError, match=r"within serve.ready_timeout_s = 3"):
        serve.run(serve_input(case, tmp_path, "serve-slow", ready_timeout_s=3.0), ctx)
    assert leftovers("serve-slow") == []


def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    """Cancellation is seen while the server starts."""
    asked = threading.Event()
    ctx = Context(data_dir=tmp_path / "data", cancelled=asked.is_set)
    threading.Timer(0.2, asked.set).start()
    with pytest.raises(CancelledError):
        serve.run(serve_input(dense_case(tmp_path), tmp_path, "serve-cancelled"), ctx)
    assert leftovers("serve-cancelled") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"backend": "mlserver", "launcher": "container", "load": {"protocol": "grpc"}},
            "serve.launcher: the backend mlserver does not start by the launcher 'container'; it does: process",
        ),
        ({"device": "gpu"}, "serve.backend: onnxruntime can't run here \\(process, gpu\\)"),
        ({"backend": "nonesuch"}, "Unknown serving backend 'nonesuch' at serve.backend; known: "),
        (
            {"batching": {"max_batch_size": 2}, "load": {"batch_size": 4}},
            "load.batch_size: 4 samples per request are more than serve.batching.max_batch_size \\(2\\)",
        ),
    ],
)
def test_what_a_backend_can_not_do_is_refused_before_anything_starts(
    tmp_path: Path, ctx: Context, change: dict[str, Any], message: str
) -> None:
    """The message names the field and what is allowed."""
    with pytest.raises(InputError, match=message):
        serve.run(serve_input(dense_case(tmp_path), tmp_path, "serve-refused", **change), ctx)
    assert not (ctx.data_dir / "servers").exists()


def test_without_a_docker_engine_containers_are_refused(
    tmp_path: Path, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says where none listens."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(InputError, match="no Docker engine listens at unix://"):
        serve.run(serve_input(dense_case(tmp_path), tmp_path, "serve-nodocker", launcher="container"), ctx)


def test_requests_that_do_not_fit_are_refused_before_anything_starts(tmp_path: Path, ctx: Context) -> None:
    """A model whose input doesn't match the requests."""
    case = dense_case(tmp_path)
    case.samples["x"] = case.samples["x"][:, :5]
    with pytest.raises(InputError, match=r"input x has shape \[5\], the model takes \[6\]"):
        serve.run(serve_input(case, tmp_path, "serve-unfit"), ctx)


def test_a_busy_port_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ctx: Context) -> None:
    """A given port that someone else has."""
    from inferbench_tasks.backends import startup
    from inferbench_tasks.backends.base import Deployment
    from inferbench_tasks.backends.onnxruntime import OnnxRuntime
    from inferbench_tasks.launchers import records

    inp = serve_input(dense_case(tmp_path), tmp_path, "serve-busy")
    folder = tmp_path / "server"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        deployment = Deployment("serve-busy", inp.convert.model, inp.job.serve, folder, tmp_path, port=port)
        with pytest.raises(
            ServerError, match=f"port {port} on 127.0.0.1 can't be bound: Address already in use"
        ):
            startup.start(OnnxRuntime(), deployment, ProcessLauncher(), tmp_path / "servers")
    records.end_run(tmp_path / "servers", "serve-busy")


def test_two_servers_side_by_side(tmp_path: Path, ctx: Context) -> None:
    """Each has its own port; ending one leaves the other."""
    case = dense_case(tmp_path)
    inputs = [serve_input(case, tmp_path, f"serve-side{n}") for n in (1, 2)]
    first, second = (serve.run(inp, ctx) for inp in inputs)
    assert first.endpoint.port != second.endpoint.port
    assert end(inputs[0], first, ctx)
    assert ProcessLauncher().alive(second.server)
    probe = open_probe(second.endpoint)
    assert probe.ready()
    probe.close()
    assert end(inputs[1], second, ctx)


def test_a_server_killed_by_force_is_noticed_within_a_second(tmp_path: Path, ctx: Context) -> None:
    """By the launcher and by the protocol alike."""
    inp = serve_input(dense_case(tmp_path), tmp_path, "serve-killed")
    output = serve.run(inp, ctx)
    probe = open_probe(output.endpoint)
    assert probe.ready()
    os.kill(output.server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 1
    while ProcessLauncher().alive(output.server) or probe.live():
        assert time.monotonic() < deadline
    probe.close()
    end(inp, output, ctx)


def test_a_second_attempt_ends_the_firsts_server(tmp_path: Path, ctx: Context) -> None:
    """A retry after a crash of the stage finds what was left and ends it first."""
    inp = serve_input(dense_case(tmp_path), tmp_path, "serve-again")
    lost = serve.run(inp, ctx)
    output = serve.run(inp, ctx)
    assert not ProcessLauncher().alive(lost.server)
    assert ProcessLauncher().alive(output.server)
    assert end(inp, output, ctx)
    assert leftovers("serve-again") == []


def test_errors_are_of_the_tree(tmp_path: Path, ctx: Context) -> None:
    """A missing requests file is the user's error, not a traceback."""
    inp = serve_input(dense_case(tmp_path), tmp_path, "serve-norequests")
    (tmp_path / "requests.npz").unlink()
    with pytest.raises(InferBenchError, match=r"requests.npz can't be read"):
        serve.run(inp, ctx)
