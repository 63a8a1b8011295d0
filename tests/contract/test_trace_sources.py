"""Every source of layers: what it tells of real runs, and whether it can be true."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from inferbench_tasks.servers.engines.base import ENGINES
from inferbench_tasks.servers.sources.base import SOURCES
from inferbench_tasks.tracing.assemble import Assembled
from inferbench_tasks.tracing.checks import checks
from inferbench_tasks.tracing.layers import LayerTimes, layer_times
from tests.serving_cases import CLASSES, Case, dense_as
from tests.traced_engine import traced

pytestmark = pytest.mark.integration
REQUESTS = 6
#: Engine -> the format that it takes, and what its runtime may call the layer that is x W + b.
FORMATS = {
    "onnxruntime": ("onnx", {"Gemm", "MatMul"}),
    "openvino": ("openvino", {"FullyConnected", "MatMul"}),
    "torchscript": ("torchscript", {"linear"}),
    "pt2": ("pt2", {"linear"}),
    "savedmodel": ("savedmodel", {"MatMul", "_FusedMatMul", "_MklMatMul", "_MklNativeFusedMatMul"}),
}

#: Of models with a free batch OpenVINO's graph tells no sizes, and the others' instruments none at all.
TELL_BYTES = ("onnxruntime", "pt2")


def cases() -> list[tuple[str, str]]:
    """Every source with every engine that has it."""
    return [(source, engine) for source in SOURCES for engine in SOURCES.load(source).engines]


def layers_of(made: Assembled) -> LayerTimes:
    """The layers that the source told of."""
    layers = layer_times(made.spans)
    assert layers is not None
    return layers


def by_itself(engine: str, case: Case, folder: Path) -> Assembled:
    """In a process of its own, as in a server: TensorFlow takes its number of threads once, and another test's may have
    been another.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(traced, engine, case, folder, REQUESTS).result(timeout=240)


@pytest.mark.parametrize(("source", "engine"), cases())
def test_what_a_source_tells_can_be_true(source: str, engine: str, tmp_path: Path) -> None:
    """Layers of the traced runs alone, each within its run, none negative, together no more than the run; by names."""
    format_, kinds = FORMATS[engine]
    case = dense_as(format_, tmp_path / "model")
    made = (
        by_itself(engine, case, tmp_path)
        if engine == "savedmodel"
        else traced(engine, case, tmp_path, REQUESTS)
    )
    layers = layers_of(made)
    found = checks(made.spans, layers, made.defects)
    assert (made.lost, found["negative"], found["beyond_parents"]) == (0, 0, 0)
    assert kinds & {layer.type for layer in layers.layers}
    assert all(layer.name and layer.durations_ns for layer in layers.layers)
    assert layers.explained_ratio <= 1.05
    if engine in TELL_BYTES:  # one sample's scores, of 4 bytes each
        assert 4 * CLASSES in {layer.output_bytes for layer in layers.layers if layer.type in kinds}
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
