"""Every source that tells of the library level: what it tells of real runs, each in its own process (5 to 10 s)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from inferbench_tasks.analysis.stack.kernels import kernels_of
from inferbench_tasks.servers.sources.base import SOURCES
from inferbench_tasks.tracing.assemble import TOLERANCE_NS
from inferbench_tasks.tracing.profiled import with_library, without_deeper
from inferbench_tasks.tracing.spans import spans_of
from tests.traced_kernels import CONVOLUTION_FLOPS, PRODUCT_FLOPS, REQUESTS

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]


def engines() -> list[str]:
    """Those of all sources that tell of primitives."""
    return [
        engine
        for kind in SOURCES
        if getattr(source := SOURCES.load(kind), "primitives", "")
        for engine in source.engines
    ]


@pytest.mark.parametrize(
    # Of PyTorch there are two forms, and one profiler.
    "engine",
    [pytest.param(of, marks=pytest.mark.long) if of == "torchscript" else of for of in engines()],
)
def test_kernels_lie_in_their_layers_and_are_what_was_calculated(engine: str, tmp_path: Path) -> None:
    """Answers stay right with the instruments on; kernels are inside layers, and take no longer; the convolution has
    its FLOPs where the source tells them."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.traced_kernels", engine, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    spans = list(spans_of(pq.read_table(tmp_path / "spans.parquet")))
    assert not list(without_deeper(spans))
    by_place = {(span.trace_id, span.number): span for span in spans}
    library = [span for span in spans if span.level == "library"]
    for span in library:
        around = by_place[span.trace_id, span.parent]
        assert around.level in ("layer", "library")
        assert around.start_ns - TOLERANCE_NS <= span.start_ns <= span.end_ns <= around.end_ns + TOLERANCE_NS
    # OpenVINO tells means of all runs: one of them has the layers.
    assert len({s.trace_id for s in library}) == (1 if engine == "openvino" else REQUESTS)

    kernels = kernels_of(with_library(spans))
    assert kernels is not None
    for layer, inside in kernels.by_layer():
        # A node's mean is of whole microseconds, see its `error_us`.
        assert sum(each.ms for each in inside) <= layer.ms + 0.005
    if engine == "openvino":  # one kernel, without work, is all of a node
        assert {each.library for each in kernels.kernels} == {"OpenVINO"}
        assert [each.layer for each in kernels.kernels] == [layer.order for layer in kernels.layers]
        (convolution,) = (each for each in kernels.kernels if each.type == "Convolution")
        assert convolution.flops is None and convolution.ms > 0
        return
    if (
        engine == "onnxruntime"
    ):  # shared objects, by samples: the convolution takes most, and runs in the runtime's own
        assert {(each.type, each.flops, each.bytes) for each in kernels.kernels} == {("sampled", None, None)}
        longest = max(kernels.kernels, key=lambda each: each.ms)
        assert "onnxruntime" in longest.library and "Conv" in kernels.layers[longest.layer].type
        return
    (convolution,) = (each for each in kernels.kernels if each.name.startswith("convolution "))
    assert (convolution.library, convolution.flops) == ("oneDNN", CONVOLUTION_FLOPS)
    assert convolution.bytes is not None and convolution.ms > 0
    assert {each.library for each in kernels.kernels} == {"oneDNN", "ATen"}
    assert [each.flops for each in kernels.kernels if each.type == "addmm"] == [PRODUCT_FLOPS]
    assert kernels.ms <= kernels.framework_ms
