"""An MLPerf query of eight samples is a request of eight samples in every stage."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from inferbench_tasks.backends import first_answer, startup
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.contracts.handles import BackendInfo, ModelArtifact, RequestSet
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.perfdb.documents import Summary
from inferbench_tasks.stages import collect, one_load, serve
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import JobSpec

MODEL = ModelArtifact(
    name="m", framework="torch", format="onnx", path="m.onnx", digest="d", inputs=(), outputs=()
)


def job(**changes: Any) -> JobSpec:
    """``multi_stream`` as MLPerf has it: eight samples per query, the load's batch size left at 1."""
    load = {"arrivals": {"kind": "multi_stream"}, "duration_s": 8.0}
    return JobSpec.model_validate(
        {"name": "t", "model": {"kind": "zoo", "name": "digits"}, "load": load, **changes}
    )


def test_the_load_knows_the_samples_of_its_requests() -> None:
    """Eight by ``multi_stream``, the batch size by all others."""
    other = job(load={"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 3})
    assert (job().traffic.samples_per_request, other.traffic.samples_per_request) == (8, 3)


def test_a_server_that_takes_fewer_samples_than_a_query_has_is_refused() -> None:
    """Eight samples are too many for ``max_batch_size`` 4 and just fit 8; the message names the arrivals."""
    backend = BACKENDS.load("onnxruntime", "serve.backend")()
    with pytest.raises(InputError, match="load.arrivals: 8 samples per request are more than"):
        serve.check_possible(job(serve={"batching": {"max_batch_size": 4}}), backend, "onnx")
    serve.check_possible(job(serve={"batching": {"max_batch_size": 8}}), backend, "onnx")


def test_the_server_is_made_for_and_checked_with_a_whole_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The backend is told of eight rows, and an answer to eight is checked after the first."""
    asked: dict[str, Any] = {"rows": []}

    def start(backend: Any, deployment: Any, *rest: Any) -> SimpleNamespace:
        asked["deployment"] = deployment
        return SimpleNamespace(probe=SimpleNamespace(close=lambda: None), server=None)

    def ask(
        probe: Any, samples: Any, reference: Any, model: Any, rows: int, tolerance: float, *, exact: bool
    ) -> float:
        assert exact
        asked["rows"].append(rows)
        if rows > 1:
            raise ServerError("enough was seen")
        return 0.0

    monkeypatch.setattr(startup, "start", start)
    monkeypatch.setattr(first_answer, "ask_and_check", ask)
    monkeypatch.setattr(first_answer, "load_sent", lambda requests: ({}, {}))
    launcher = SimpleNamespace(unavailable=lambda: None, log_end=lambda server: "", close=lambda: None)
    monkeypatch.setattr(LAUNCHERS, "load", lambda *names: lambda: launcher)
    requests = RequestSet(path="r.npz", reference_path="a.npz", samples=16, digest="d")
    inp: Any = SimpleNamespace(
        run_id="r", job=job(), generate=SimpleNamespace(requests=requests, model=MODEL),
        convert=SimpleNamespace(model=MODEL, tolerance_ratio=1e-3),
    )  # fmt: skip
    with pytest.raises(ServerError, match="enough was seen"):
        serve.run(cast(serve.Input, inp), Context(data_dir=tmp_path, base_dir=tmp_path))
    assert asked["deployment"].client_batch_size == 8
    assert asked["rows"] == [1, 8]


def test_the_ceiling_is_measured_with_answers_to_a_whole_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The stage asks for answers of eight samples: 8 x 40 bytes of ten float32 each."""
    np.savez(tmp_path / "a.npz", scores=np.zeros((16, 10), np.float32))
    requests = RequestSet(path="r.npz", reference_path=str(tmp_path / "a.npz"), samples=16, digest="d")
    sizes = []

    def ceiling(plan: Any, answer_bytes: int, *rest: Any, **more: Any) -> None:
        sizes.append(answer_bytes)
        raise InputError("enough was seen")

    monkeypatch.setattr("inferbench_tasks.loadgen.ceiling.check_ceiling", ceiling)
    monkeypatch.setattr(one_load, "plan_of", lambda *given: SimpleNamespace(stream=None))
    inp: Any = SimpleNamespace(run_id="r", job=job(), generate=SimpleNamespace(requests=requests))
    with pytest.raises(InputError, match="enough was seen"):
        one_load.apply(inp, Context(data_dir=tmp_path, base_dir=tmp_path), tmp_path, cast(Any, None))
    assert sizes == [8 * 40]


def test_the_result_has_the_samples_of_a_request_as_its_batch() -> None:
    """What leaderboards show and lists search by (``batch=8``); the job is kept as it was asked for."""
    backend = BackendInfo(kind="onnxruntime", version="1", launcher="process", label="x", settings={})
    inp: Any = SimpleNamespace(
        run_id="i.000", attempt=1, job_id="j", job=job(),
        convert=SimpleNamespace(model=MODEL), generate=SimpleNamespace(model=MODEL),
        serve=SimpleNamespace(backend=backend, replicas=(), replicas_here=(), far_replicas=(), balancer=None),
        load=SimpleNamespace(certificate={}, away=None),
    )  # fmt: skip
    result = collect.describe(inp, Summary(), {"hardware": {"cpu": "Example CPU", "gpus": []}}, VALID, {})
    assert result.load.batch_size == 8
    assert result.provenance.model_dump()["job"]["load"]["batch_size"] == 1
