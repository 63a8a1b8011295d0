"""Servers of other makers carry on the context of our requests: their own spans, as they send them, are within ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.triton import Triton
from inferbench_tasks.stages import trace
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.tracing.assemble import TOLERANCE_NS
from inferbench_tasks.tracing.spans import Span, spans_of
from tests.docker_engine import ENVIRONMENTS
from tests.integration.test_serving import leftovers
from tests.integration.test_traced_requests import REQUESTS, order
from tests.serving_cases import dense_case

_NO_TRITON = Triton.unavailable("process")
_triton = pytest.mark.skipif(bool(_NO_TRITON), reason=str(_NO_TRITON))
_mlserver = pytest.mark.skipif(
    not os.environ.get("INFERBENCH_TEST_OPTIONAL"),
    reason="its environment takes minutes to install; INFERBENCH_TEST_OPTIONAL=1 runs it",
)
pytestmark = pytest.mark.integration


def on(backend: str, inp: Input) -> Input:
    """The same requests to another server."""
    fields: dict[str, Any] = inp.model_dump()
    fields["job"]["serve"]["backend"] = backend
    return Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})


def context(folder: Path) -> Context:
    """Data of its own, with the environments that all tests share."""
    data = folder / "data"
    ENVIRONMENTS.mkdir(exist_ok=True)
    place = Context(data_dir=data).cache_dir("envs")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        place.rmdir()
    place.symlink_to(ENVIRONMENTS)
    return Context(data_dir=data)


@pytest.mark.parametrize(
    ("backend", "protocol", "inner"),
    [
        pytest.param("triton", "http", "compute", marks=_triton),
        pytest.param("triton", "grpc", "compute", marks=[_triton, pytest.mark.long]),
        pytest.param("mlserver", "grpc", "ModelInfer", marks=_mlserver),
    ],
)
def test_their_spans_are_within_ours(backend: str, protocol: str, inner: str, tmp_path: Path) -> None:
    """Each request has its server's span within it, down to the innermost, each with its parent and their ids, none
    beyond its parent but at the end of the outermost: a server may be done with a request after its client is.
    Requests that were not traced are in no trace.
    """
    inp = on(backend, order(dense_case(tmp_path), tmp_path, load={"protocol": protocol}))
    output = trace.run(inp, context(tmp_path))
    document = output.document
    assert "problem" not in document, document
    assert document["levels"] == ["application", "model"]
    assert (document["unanswered"], document["lost"]) == (0, 0)
    assert output.spans_path is not None
    traces: dict[str, list[Span]] = {}
    for span in spans_of(pq.read_table(output.spans_path)):
        traces.setdefault(span.trace_id, []).append(span)
    assert len(traces) == REQUESTS
    for spans in traces.values():
        assert [span.parent for span in spans].count(-1) == 1
        client = [span for span in spans if span.level == "application"]
        asking = client[2]
        assert [span.parent for span in client] == [-1, 0, 0, 0]
        assert [span.parent for span in spans].count(asking.number) == 1
        assert all(span.parent < span.number for span in spans)
        assert all(span.level == "model" and len(span.span_id) == 16 for span in spans[len(client) :])
        for span in spans[1:]:
            around = spans[span.parent]
            assert around.start_ns - TOLERANCE_NS <= span.start_ns <= around.end_ns
            assert around is asking or span.end_ns <= around.end_ns + TOLERANCE_NS
        assert any(inner in span.name for span in spans), [span.name for span in spans]
    assert leftovers(inp.run_id) == []


def test_who_is_told_where_spans_go_is_no_one_s_setting(tmp_path: Path) -> None:
    """An untraced Triton sends none and may connect nowhere; the configuration of both is the same."""
    if _NO_TRITON:
        pytest.skip(_NO_TRITON)
    inp = on("triton", order(dense_case(tmp_path), tmp_path))
    ENVIRONMENTS.mkdir(exist_ok=True)
    made = []
    for port in (None, 4318):
        folder = tmp_path / f"at-{port}"
        folder.mkdir()
        deployment = Deployment(
            inp.run_id, inp.convert.model, inp.job.serve, folder, ENVIRONMENTS, spans_port=port
        )
        made.append(Triton().prepare(deployment))
    plain, sending = made
    assert plain.launch.reach.connects == () and sending.launch.reach.connects == (4318,)
    assert not any("opentelemetry" in each for each in plain.launch.argv)
    assert plain.settings == sending.settings
