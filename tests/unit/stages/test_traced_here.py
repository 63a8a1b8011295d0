"""Levels that this host can't tell are refused before a server is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors import perf_samples
from inferbench_tasks.servers.sources import gpu_work
from inferbench_tasks.servers.sources.onnxruntime import OnnxRuntimeProfile
from inferbench_tasks.stages.traced_here import check_level
from inferbench_tasks.submission.schema import JobSpec
from tests.serving_cases import dense_case, serve_input

WHY = "kernel.perf_event_paranoid is 3; sysctl -w kernel.perf_event_paranoid=2 helps"


def job(
    folder: Path, backend: str = "onnxruntime", trace: dict[str, Any] | None = None, device: str = "cpu"
) -> JobSpec:
    """A job with that trace."""
    spec = serve_input(dense_case(folder), folder, backend=backend).job.model_dump(mode="json")
    return JobSpec.model_validate({**spec, "trace": trace, "serve": {**spec["serve"], "device": device}})


def test_a_level_whose_source_can_t_run_here_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime's library level is told by samples, which this kernel does not take; its layers need none, and a
    trace without a level by name goes as deep as it can."""
    monkeypatch.setattr(perf_samples, "unavailable", lambda: WHY)
    backend, model = BACKENDS.load("onnxruntime")(), dense_case(tmp_path).model
    with pytest.raises(
        InputError, match="the level library can't be told of here: .*paranoid=2 helps."
    ) as error:
        check_level(job(tmp_path, trace={"deepest": "library"}), backend, model)
    assert error.value.field == "trace.deepest"
    for trace in (None, {}, {"deepest": "layer"}, {"deepest": "framework"}, {"deepest": "model"}):
        check_level(job(tmp_path, trace=trace), backend, model)
    for name in ("torchscript", "triton"):  # other instruments, or none of ours
        check_level(job(tmp_path, trace={"deepest": "library"}), BACKENDS.load(name)(), model)
    monkeypatch.setattr(perf_samples, "unavailable", lambda: None)
    check_level(job(tmp_path, trace={"deepest": "library"}), backend, model)


def test_without_its_layers_nothing_is_told_of_what_they_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is not here at all tells neither level."""
    monkeypatch.setattr(OnnxRuntimeProfile, "unavailable", classmethod(lambda cls: "it is not installed"))
    backend, model = BACKENDS.load("onnxruntime")(), dense_case(tmp_path).model
    for level in ("layer", "library"):
        with pytest.raises(InputError, match=f"the level {level} can't be told of here: it is not installed"):
            check_level(job(tmp_path, trace={"deepest": level}), backend, model)


def test_on_a_gpu_a_level_needs_a_source_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a driver PyTorch's is refused with what helps; sources of CPUs say that they are; levels of the server
    itself, and a trace without a level by name, need none."""
    monkeypatch.setattr(gpu_work, "_DRIVER", tmp_path / "none")
    model = dense_case(tmp_path).model
    for name, device, words in (
        ("torchscript", "gpu", "no NVIDIA driver .*it takes a worker with a GPU"),
        ("onnxruntime", "gpu:t4", "no NVIDIA driver .*it takes a worker with a GPU"),
        ("openvino", "gpu", "OpenVINO's counters: of runs on a CPU alone"),
    ):
        backend = BACKENDS.load(name)()
        with pytest.raises(InputError, match=f"the level layer can't be told of here: .*{words}"):
            check_level(job(tmp_path, trace={"deepest": "layer"}, device=device), backend, model)
        for trace in ({}, {"deepest": "framework"}):
            check_level(job(tmp_path, trace=trace, device=device), backend, model)
