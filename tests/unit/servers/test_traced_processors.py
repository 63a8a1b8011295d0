"""Processors around a model in our server: where in a traced request they are, and what is the model's own time."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import Processing, ProcessorStep, TensorSpec
from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.traceparent import TraceContext
from inferbench_tasks.servers import model as served
from inferbench_tasks.servers import processing
from inferbench_tasks.servers.config import ServerConfig, Tracing
from inferbench_tasks.servers.model import ServedModel
from inferbench_tasks.tracing.assemble import Asked, assemble
from inferbench_tasks.tracing.spans import Span

CONTEXT = TraceContext("a" * 32, "b" * 16)
SPEC = TensorSpec(name="x", dtype="float32", shape=(2,))
BEFORE, AFTER = ProcessorStep(kind="image"), ProcessorStep(kind="labels")


class Engine:
    """Takes 2 ms, and knows when."""

    ran: tuple[int, int]

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """The same numbers."""
        start_ns = time.monotonic_ns()
        time.sleep(0.002)
        self.ran = (start_ns, time.monotonic_ns())
        return inputs


class Steps:
    """Each takes 5 ms: counted into the model's time they would be most of it."""

    def before(self, raw: Array) -> tuple[dict[str, Array], dict[str, int]]:
        """The model's input."""
        time.sleep(0.005)
        return {"x": np.ones((len(raw), 2), np.float32)}, {"image": 4_000_000}

    def after(self, outputs: dict[str, Array]) -> tuple[dict[str, Array], dict[str, int]]:
        """The model's output."""
        time.sleep(0.005)
        return outputs, {"labels": 3_000_000}


def traced(
    folder: Path,
    patch: pytest.MonkeyPatch,
    before: tuple[ProcessorStep, ...],
    after: tuple[ProcessorStep, ...],
) -> tuple[dict[str, Span], Engine, int, int]:
    """One traced request through a model with such processors: the spans in its server by name, its engine, and what
    the answer says of the times before and after the model."""
    engine = Engine()
    patch.setattr(served, "ENGINES", SimpleNamespace(load=lambda _: lambda _: engine))
    patch.setattr(processing, "Pipeline", lambda *_: Steps())
    sent = TensorSpec(name="raw", dtype="bytes", shape=()) if before else SPEC
    config = ServerConfig(
        engine="made", model_name="m", model_path="m", inputs=(SPEC,), outputs=(SPEC,),
        address_path=str(folder / "address.json"), tracing=Tracing(path=str(folder / "told.json"), framework=True),
        processing=Processing(side="server", before=before, after=after, sent=(sent,), answered=(SPEC,)),
    )  # fmt: skip
    model = ServedModel(config)
    model.load()
    row: dict[str, Array] = (
        {"raw": np.array([b"x"], np.object_)} if before else {"x": np.ones((1, 2), np.float32)}
    )
    begin_ns = time.monotonic_ns()
    execution = asyncio.run(model.execute(row, 1))
    end_ns = time.monotonic_ns()
    assert model.recorder is not None and execution.outputs is not None
    moments = (begin_ns, begin_ns, begin_ns, end_ns, end_ns)
    model.recorder.request([str(CONTEXT).encode()], moments, execution)
    model.close()
    asked = Asked(CONTEXT.trace_id, CONTEXT.span_id, 0, begin_ns, begin_ns, end_ns, end_ns)
    told = json.loads((folder / "told.json").read_bytes())
    offset_ns = told["epoch_offsets"][0]["offset_ns"]
    made = assemble([asked], told, 0)
    assert made.defects == made.lost == 0
    engine.ran = (engine.ran[0] + offset_ns, engine.ran[1] + offset_ns)
    spans = {span.name: span for span in made.spans}
    inside = {name: span for name, span in spans.items() if span.parent == spans["server"].number}
    (run,) = (span for span in made.spans if span.level == "framework")
    assert run.parent == spans["inference"].number
    return inside, engine, execution.prepared_ns, execution.finished_ns


def test_processors_have_spans_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the queue and behind the model, one behind the other with all other parts of the request; each says how
    long which processor worked. The inference is the engine's run alone, and the answer's times have both."""
    spans, engine, before_ns, after_ns = traced(tmp_path, monkeypatch, (BEFORE,), (AFTER,))
    assert list(spans) == [
        "read", "decode", "pre-process", "queue", "join", "inference", "split", "resume", "post-process", "encode",
    ]  # fmt: skip
    ordered = list(spans.values())
    assert all(one.duration_ns >= 0 and one.end_ns <= two.start_ns for one, two in pairwise(ordered))
    inference = spans["inference"]
    assert inference.start_ns <= engine.ran[0] and engine.ran[1] <= inference.end_ns
    made, finished = spans["pre-process"], spans["post-process"]
    assert made.attributes == {"image_ns": 4_000_000} and finished.attributes == {"labels_ns": 3_000_000}
    assert min(made.duration_ns, finished.duration_ns) >= 5_000_000
    assert before_ns == made.duration_ns + spans["join"].duration_ns
    assert after_ns == finished.duration_ns + spans["split"].duration_ns


def test_where_nothing_is_to_be_done_there_is_no_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors after the model alone: no span of pre-processing, rather than one that took no time."""
    spans, _, before_ns, _ = traced(tmp_path, monkeypatch, (), (AFTER,))
    assert "pre-process" not in spans and spans["post-process"].duration_ns >= 5_000_000
    assert before_ns == spans["join"].duration_ns
