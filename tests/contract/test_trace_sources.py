"""Every source of layers: what it tells of real runs, and whether it can be true."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.protocols.traceparent import TraceContext
from inferbench_tasks.servers.config import Tracing
from inferbench_tasks.servers.engines.base import ENGINES, TellsLayers
from inferbench_tasks.servers.scheduler import Execution
from inferbench_tasks.servers.sources.base import SOURCES
from inferbench_tasks.servers.tracing import Recorder, TracedEngine
from inferbench_tasks.tracing.assemble import Asked, Assembled, assemble
from inferbench_tasks.tracing.checks import checks
from inferbench_tasks.tracing.layers import LayerTimes, layer_times
from tests.serving_cases import Case, dense_as, server_config

pytestmark = pytest.mark.integration
REQUESTS = 6
#: Engine -> the format that it takes, and what its runtime may call the layer that is x W + b.
FORMATS = {
    "onnxruntime": ("onnx", {"Gemm", "MatMul"}),
    "openvino": ("openvino", {"FullyConnected", "MatMul"}),
    "torchscript": ("torchscript", {"linear"}),
    "pt2": ("pt2", {"linear"}),
}


def cases() -> list[tuple[str, str]]:
    """Every source with every engine that has it."""
    return [(source, engine) for source in SOURCES for engine in SOURCES.load(source).engines]


def asked_of(engine: str, case: Case, folder: Path) -> Assembled:
    """An engine that was warmed up and asked by others before the traced requests, put together with what it tells."""
    path = folder / "told.json"
    config = server_config(
        case, folder, tracing=Tracing(path=str(path), framework=True, layers=True)
    ).model_copy(update={"engine": engine})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the runtimes, about themselves
        loaded = ENGINES.load(engine)(config)
    assert isinstance(loaded, TellsLayers) and loaded.source is not None
    row = {"x": case.samples["x"][:1]}
    for _ in range(2):
        loaded.run(row)
    recorder = Recorder(path, framework=True)
    traced = TracedEngine(loaded, recorder, loaded.source)
    for _ in range(3):
        traced.run(row)
    asked = []
    for number in range(REQUESTS):
        context = TraceContext(f"{number + 1:032x}", f"{number + 1:016x}")
        start_ns = time.monotonic_ns()
        execution = Execution(
            row, 1, lambda _: None, enqueued_ns=start_ns, queue_ns=0, input_ns=0, output_ns=0
        )
        answer = traced.run(row)
        assert np.allclose(answer["scores"], case.reference["scores"][:1], rtol=1e-3, atol=1e-4)
        end_ns = time.monotonic_ns()
        execution.infer_ns = end_ns - start_ns
        recorder.request(context, (start_ns, start_ns, start_ns, end_ns, end_ns), execution)
        asked.append(Asked(context.trace_id, context.span_id, number, start_ns, start_ns, end_ns, end_ns))
    recorder.write([loaded.source])
    return assemble(asked, json.loads(path.read_bytes()), 0)


def layers_of(made: Assembled) -> LayerTimes:
    """The layers that the source told of."""
    layers = layer_times(made.spans)
    assert layers is not None
    return layers


@pytest.mark.parametrize(("source", "engine"), cases())
def test_what_a_source_tells_can_be_true(source: str, engine: str, tmp_path: Path) -> None:
    """Layers of the traced runs alone, each within its run, none negative, together no more than the run; by names."""
    format_, kinds = FORMATS[engine]
    case = dense_as(format_, tmp_path / "model")
    made = asked_of(engine, case, tmp_path)
    layers = layers_of(made)
    found = checks(made.spans, layers, made.defects)
    assert (made.lost, found["negative"], found["beyond_parents"]) == (0, 0, 0)
    assert kinds & {layer.type for layer in layers.layers}
    assert all(layer.name and layer.durations_ns for layer in layers.layers)
    assert layers.explained_ratio <= 1.05
    runs = {(s.trace_id, s.number) for s in made.spans if s.level == "framework"}
    assert len(runs) == REQUESTS
    outer = [span for span in made.spans if (span.trace_id, span.parent) in runs]
    told_of = {span.trace_id for span in outer}
    # OpenVINO tells means of all runs: one of them has the layers.
    assert len(told_of) == (1 if source == "openvino_counters" else REQUESTS)


def test_every_source_has_an_engine_that_knows_it() -> None:
    """A card names engines that there are, and says why it is not here in words."""
    for kind in SOURCES:
        source = SOURCES.load(kind)
        assert source.engines and all(engine in ENGINES for engine in source.engines)
        assert source.title and source.tells
        assert source.unavailable() is None or isinstance(source.unavailable(), str)
