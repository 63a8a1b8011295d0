"""Stage ``trace`` with processors around the model, on either side, with real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.contracts.handles import Processing, ProcessorStep
from inferbench_tasks.processors.pipeline import RAW, Pipeline
from inferbench_tasks.requests.ragged import objects, packed
from inferbench_tasks.stages import trace
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.processed import RAW_SPEC, spec_of
from inferbench_tasks.tracing.spans import Span, spans_of
from tests.integration.test_serving import leftovers
from tests.integration.test_traced_requests import order
from tests.serving_cases import CLASSES, FEATURES, Case, dense_case, dense_weights
from tests.unit.processors.test_processors import sound

pytestmark = pytest.mark.integration
BEFORE = (ProcessorStep(kind="audio", settings={"rate_hz": 8000, "samples": FEATURES}),)
AFTER = (ProcessorStep(kind="labels", settings={"names": [f"class {at}" for at in range(CLASSES)]}),)
RAW_SAMPLES = [sound(list(range(at, at + FEATURES))) for at in range(32)]
LOAD = {"arrivals": {"kind": "constant", "rate_rps": 100.0}, "duration_s": 0.5, "warmup_s": 0.1}


def sounds(folder: Path) -> Case:
    """The usual model, asked for sounds."""
    x = Pipeline(BEFORE, AFTER, ["x"]).each_before(RAW_SAMPLES)["x"]
    weights, bias = dense_weights()
    return Case(dense_case(folder).model, {"x": x}, {"scores": x @ weights + bias})


def traced(
    case: Case, folder: Path, processing: Processing, one_in: int | None
) -> tuple[dict[str, Any], list[dict[tuple[str, str], Span]]]:
    """What the result says of the trace, and the spans of each request by their level and name."""
    block: dict[str, Any] = {"requests": 30, "one_in": one_in} if one_in else {}
    inp = order(case, folder, load=LOAD, **block)
    requests = inp.generate.requests.model_copy(update={"processing": processing})
    inp = inp.model_copy(update={"generate": inp.generate.model_copy(update={"requests": requests})})
    output = trace.run(inp, Context(data_dir=folder / "data"))
    assert "problem" not in output.document, output.document
    document = output.document
    assert document["unanswered"] == document["lost"] == document["checks"]["negative"] == 0
    assert output.spans_path is not None
    by_trace: dict[str, dict[tuple[str, str], Span]] = {}
    for span in spans_of(pq.read_table(output.spans_path)):
        by_trace.setdefault(span.trace_id, {})[span.level, span.name] = span
    assert len(by_trace) == document["requests"] > 0
    assert leftovers(inp.run_id) == []
    return document, list(by_trace.values())


def worked(made: Span, named: Span) -> None:
    """Each processor of a request took some time of its span."""
    assert 0 < made.attributes["audio_ns"] <= made.duration_ns
    assert 0 < named.attributes["labels_ns"] <= named.duration_ns


@pytest.mark.long
@pytest.mark.parametrize("one_in", [None, 2])
def test_processors_in_the_server_are_seen(tmp_path: Path, one_in: int | None) -> None:
    """Requests carry sounds and answers names, one by one and in a load: decoding is before the queue, naming behind
    the model, and neither is in its inference. A unit test says so of a made-up model."""
    case = sounds(tmp_path)
    answers = Pipeline(BEFORE, AFTER, ["x"]).each_after(case.reference)
    np.savez(tmp_path / "sent.npz", allow_pickle=False, **packed({RAW: objects(RAW_SAMPLES)}))
    np.savez(tmp_path / "answered.npz", allow_pickle=False, **packed(answers))
    processing = Processing(
        side="server", before=BEFORE, after=AFTER, sent_path=str(tmp_path / "sent.npz"), sent=(RAW_SPEC,),
        answered_path=str(tmp_path / "answered.npz"),
        answered=tuple(spec_of(name, array) for name, array in answers.items()),
    )  # fmt: skip
    for found in traced(case, tmp_path, processing, one_in)[1]:
        made, named = found["model", "pre-process"], found["model", "post-process"]
        decode, queue, inference, encode = (
            found["model", name] for name in ("decode", "queue", "inference", "encode")
        )
        assert decode.end_ns <= made.start_ns and made.end_ns <= queue.start_ns
        assert inference.end_ns <= named.start_ns and named.end_ns <= encode.start_ns
        worked(made, named)


@pytest.mark.parametrize("one_in", [None, 2])
def test_processors_at_the_client_are_seen(tmp_path: Path, one_in: int | None) -> None:
    """Sounds are decoded at the client, requests carry tensors and answers get their names there, one by one and in a
    load: both are parts of the request around the server's, which knows of it; nothing of them is in the server."""
    np.savez(tmp_path / "raw.npz", allow_pickle=False, **packed({RAW: objects(RAW_SAMPLES)}))
    processing = Processing(side="client", before=BEFORE, after=AFTER, raw_path=str(tmp_path / "raw.npz"))
    document, traces = traced(sounds(tmp_path), tmp_path, processing, one_in)
    assert document["defects"] == 0
    for found in traces:
        made, named = found["application", "pre-process"], found["application", "post-process"]
        asking, server = found["application", "to first byte"], found["model", "server"]
        assert made.end_ns <= asking.start_ns <= server.start_ns and asking.end_ns <= named.start_ns
        worked(made, named)
        assert ("model", "pre-process") not in found and ("model", "post-process") not in found
        parts = [span for span in found.values() if span.level == "application" and span.name != "request"]
        assert len(parts) == 7
        assert sum(span.duration_ns for span in parts) == found["application", "request"].duration_ns
    if one_in:
        levels = {row["level"] for row in document["parts"] if row["part"] == "pre-process"}
        assert levels == {"application"}
