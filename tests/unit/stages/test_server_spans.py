"""Whether answers are read for the server's own times hangs on what its backend declares, not on its name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.own_server import OwnServer
from inferbench_tasks.contracts.handles import RequestSet
from inferbench_tasks.stages import load_order
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import JobSpec


def test_backends_on_our_server_tell_their_times() -> None:
    """All of them but the one that speaks TensorFlow Serving's protocol, and no other backend."""
    telling = {kind for kind in BACKENDS if BACKENDS.load(kind).tells_spans}
    ours = {kind for kind in BACKENDS if issubclass(BACKENDS.load(kind), OwnServer)}
    assert telling == ours - {"tfs_protocol"}
    assert "onnxruntime" in telling


@pytest.mark.parametrize("telling", [True, False])
def test_the_load_reads_them_where_the_backend_tells_them(
    telling: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the label says: a plug-in's own label loses no times, and another server's name gives none."""
    asked: dict[str, Any] = {}

    def prepare(spec: Any, **settings: Any) -> None:
        asked.update(settings)

    monkeypatch.setattr("inferbench_tasks.loadgen.prepare.prepare", prepare)
    monkeypatch.setattr(load_order, "load_samples", lambda path: {})
    job = JobSpec.model_validate(
        {
            "name": "t",
            "model": {"kind": "zoo", "name": "digits"},
            "load": {"arrivals": {"kind": "single_stream"}, "duration_s": 8.0},
        }
    )
    label = "my runtime 1.0" if telling else "not InferBench's server"
    inp: Any = SimpleNamespace(
        job=job,
        generate=SimpleNamespace(requests=RequestSet(path="x", reference_path="y", samples=1, digest="d")),
        serve=SimpleNamespace(tells_spans=telling, backend=SimpleNamespace(label=label)),
    )
    endpoint: Any = SimpleNamespace(protocol="http")
    load_order.plan_of(inp, Context(data_dir=tmp_path, base_dir=tmp_path), tmp_path, endpoint)
    assert asked["server_spans"] is telling
