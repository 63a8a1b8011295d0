"""Which requests the stage ``trace`` keeps, and whose times its layers are; servers' words are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from inferbench_tasks.errors import CancelledError, ServerError
from inferbench_tasks.stages import trace, traced
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.tracing.counters import Seen, ServerTrack, tracks_in
from inferbench_tasks.tracing.missing import missing_in_words
from inferbench_tasks.tracing.spans import Level, spans_of
from tests.serving_cases import dense_case, serve_input
from tests.unit.tracing.test_assemble import asked, layer, told


def once(inp: Input, ctx: Context, level: Level, number: int) -> traced.Traced:
    """A server with a layer that takes longer with the instruments of the library level, and what it ran then."""
    layers: list[dict[str, Any]] = []
    if level == "layer":
        layers = [layer("conv", 320, 400)]
    elif level == "library":
        layers = [layer("conv", 320, 500) | {"inside": [layer("jit", 330, 490) | {"inside": []}]}]
    trace_id = f"{level}-{number}"
    seen = Seen([ServerTrack("server's CPU", "cores", [number], [float(number)], number + 1)])
    return traced.Traced([asked(trace_id)], told(0, trace_id, layers), [2.0 if layers else 1.0], 0, seen)


def test_layers_are_timed_without_the_instruments_below_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the library level requests of both are kept, in all rounds; without it those of layers, and no ceilings. What
    monitors saw is of the same servers."""
    monkeypatch.setattr(traced, "once", once)
    monkeypatch.setattr(trace, "ceilings", lambda ctx, device: {"gflops": 1.0})
    given = serve_input(dense_case(tmp_path), tmp_path)
    for deepest, levels in (("library", {"layer", "library"}), (None, {None})):
        job = given.job.model_dump(mode="json")
        job |= {"trace": {"rounds": 2, "deepest": deepest}}
        fields = given.model_dump() | {"job": job}
        inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
        output = trace.traced(inp, Context(data_dir=tmp_path / "data"))
        document, path = output.document, output.spans_path
        assert path is not None
        spans = list(spans_of(pq.read_table(path)))
        (track,) = tracks_in(pq.ParquetFile(path).read())
        assert set(track.values) == {0.0, 1.0} and len(track.values) == 2 * len(levels)
        (counter,) = document["counters"]
        assert counter == {
            "counter": "server's CPU, cores", "samples": 2 * len(levels), "least": 0.0, "mean": 0.5, "most": 1.0,
        }  # fmt: skip
        requests = [span for span in spans if span.parent < 0]
        assert {span.attributes.get("instrumented") for span in requests} == levels
        assert (document["requests"], len(requests)) == (2, 2 * len(levels))
        assert document["levels"][-1] == (deepest or "layer") and document["batch_size"] == 1
        (only,) = document["layers"]["layers"]
        assert only["ms"] == pytest.approx(0.08)
        assert (
            any(span.level == "library" for span in spans)
            == ("ceilings" in document)
            == (deepest is not None)
        )
        assert document["overheads"][-1]["ratio"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("broken", "levels"),
    [
        ("library", ["application", "model", "framework", "layer"]),
        ("layer", ["application", "model", "framework"]),
        ("framework", ["application", "model"]),
    ],
)
def test_a_level_whose_instruments_fail_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Level, levels: list[Level]
) -> None:
    """What is above it is told as if it had not been asked for, in all rounds; why it is missing is said. One that
    fails in the second round has told nothing that could be compared."""

    def fails(inp: Input, ctx: Context, level: Level, number: int) -> traced.Traced:
        if level == broken and number == 1:
            raise ServerError("no samples can be taken\nits log")
        return once(inp, ctx, level, number)

    monkeypatch.setattr(traced, "once", fails)
    monkeypatch.setattr(trace, "ceilings", lambda ctx, device: {"gflops": 1.0})
    given = serve_input(dense_case(tmp_path), tmp_path)
    job = given.job.model_dump(mode="json") | {"trace": {"rounds": 2, "deepest": "library"}}
    fields = given.model_dump() | {"job": job}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    document = output.document
    assert "problem" not in document and output.spans_path is not None
    assert document["levels"] == [each["level"] for each in document["overheads"]] == levels
    assert document["untold"] == {broken: "no samples can be taken\nits log"}
    assert f"Its level {broken} is not told: no samples can be taken." in missing_in_words(document)
    assert (document["layers"] is not None) == ("layer" in levels) and "ceilings" not in document
    spans = list(spans_of(pq.read_table(output.spans_path)))
    requests = [span for span in spans if span.parent < 0]
    assert len(requests) == document["requests"] == 2
    assert not any("instrumented" in span.attributes for span in requests)


def test_without_the_parts_of_a_request_there_is_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not start with a recorder tells nothing: that is why there is none."""

    def fails(inp: Input, ctx: Context, level: Level, number: int) -> traced.Traced:
        if level != "application":
            raise ServerError(f"no {level}")
        return once(inp, ctx, level, number)

    monkeypatch.setattr(traced, "once", fails)
    given = serve_input(dense_case(tmp_path), tmp_path)
    fields = given.model_dump() | {"job": given.job.model_dump(mode="json") | {"trace": {}}}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    assert trace.run(inp, Context(data_dir=tmp_path / "data")).document == {"problem": "no model"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("joined_ns"), "a fault of InferBench's own, KeyError: 'joined_ns'"),
        (ServerError("it ended"), "it ended"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
)
def test_no_fault_of_a_trace_takes_the_run_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    """What was measured before stands: the trace says what is wrong with it, whether it was foreseen or not."""

    def fails(*_: object) -> traced.Traced:
        raise error

    monkeypatch.setattr(traced, "once", fails)
    given = serve_input(dense_case(tmp_path), tmp_path)
    fields = given.model_dump() | {"job": given.job.model_dump(mode="json") | {"trace": {}}}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    output = trace.run(inp, Context(data_dir=tmp_path / "data"))
    assert output.document == {"problem": words} and output.spans_path is None


def test_a_cancelled_trace_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the run, as everywhere."""

    def cancelled(*_: object) -> traced.Traced:
        raise CancelledError("stopped")

    monkeypatch.setattr(traced, "once", cancelled)
    given = serve_input(dense_case(tmp_path), tmp_path)
    fields = given.model_dump() | {"job": given.job.model_dump(mode="json") | {"trace": {}}}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    with pytest.raises(CancelledError):
        trace.run(inp, Context(data_dir=tmp_path / "data"))
