"""Spans as columns, and added up to a flame graph; each sum by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from inferbench_tasks.tracing import flame
from inferbench_tasks.tracing import timeline as timelines
from inferbench_tasks.tracing.columns import columns_of, depths
from inferbench_tasks.tracing.flame import flame_graph
from inferbench_tasks.tracing.own_times import own_times
from inferbench_tasks.tracing.spans import Span, table_of
from inferbench_tasks.tracing.timeline import timeline


def request(number: int, *layers_ns: int) -> Iterator[Span]:
    """A request of 1,000 ns, a server of 900 in it, a run of 800, and its layers, from 10,000 ns a request on."""
    trace, start_ns = f"{number:032x}", 10_000 * number
    yield Span(trace, 0, -1, "application", "request", start_ns, 1000)
    yield Span(trace, 1, 0, "model", "server", start_ns + 10, 900)
    yield Span(trace, 2, 1, "framework", "session.run", start_ns + 20, 800)
    for at, ns in enumerate(layers_ns):
        yield Span(trace, 3 + at, 2, "layer", f"layer {at}", start_ns + 20 + sum(layers_ns[:at]), ns, "Conv")


def rows(found: dict[str, object]) -> list[tuple[object, ...]]:
    """Parent, name, spans, total and own ns of each frame."""
    frames: list[dict[str, object]] = found["frames"]  # type: ignore[assignment]
    return [tuple(of[name] for name in ("parent", "name", "spans", "total_ns", "self_ns")) for of in frames]


def test_requests_are_added_up() -> None:
    """The same way down is one frame; what is a frame's own is what no frame in it has."""
    columns = columns_of(table_of([*request(1, 300, 200), *request(2, 310)]))
    found = flame_graph(columns)
    assert rows(found) == [
        (-1, "request", 2, 2000, 200),
        (0, "server", 2, 1800, 200),
        (1, "session.run", 2, 1600, 790),
        (2, "layer 0", 2, 610, 610),
        (2, "layer 1", 1, 200, 200),
    ]
    assert (found["requests"], found["spans"], found["left_out"]) == (2, 9, 0)


def test_one_request_and_some_levels() -> None:
    """What stands between is passed over: layers lie in the request then, and it has the rest as its own."""
    columns = columns_of(table_of([*request(1, 300, 200), *request(2, 310)]))
    found = flame_graph(columns, ["application", "layer"], f"{2:032x}")
    assert rows(found) == [(-1, "request", 1, 1000, 690), (0, "layer 0", 1, 310, 310)]
    assert rows(flame_graph(columns, ["layer"])) == [
        (-1, "layer 0", 2, 610, 610),
        (-1, "layer 1", 1, 200, 200),
    ]
    assert rows(flame_graph(columns, None, "f" * 32)) == [] == rows(flame_graph(columns, ["foreign"]))


def test_own_times_of_a_random_tree_add_up_to_its_roots() -> None:
    """Whatever the tree: every span is counted once, and a span's own ns are those in which none in it runs."""
    draw = random.Random(7)
    spans = [
        Span("a" * 32, at, draw.randrange(-1, at) if at else -1, "foreign", f"op {at % 9}", at, draw.randrange(99))
        for at in range(500)
    ]  # fmt: skip
    columns = columns_of(table_of(spans))
    found = flame_graph(columns)
    assert sum(frame["spans"] for frame in found["frames"]) == 500
    own = [
        sum(
            not any(each.parent == span.number and each.start_ns <= ns < each.end_ns for each in spans)
            for ns in range(span.start_ns, span.end_ns)
        )
        for span in spans
    ]
    assert own_times(columns.start_ns, columns.duration_ns, columns.parent).tolist() == own
    assert sum(frame["self_ns"] for frame in found["frames"]) == sum(own)
    around = [0] * 500
    for span in spans:
        around[span.number] = around[span.parent] + 1 if span.parent >= 0 else 0
    assert depths(columns.parent).tolist() == around


def training(steps: int) -> Iterator[Span]:
    """Steps of two ranks at a time, 100 ns and 80 from 10 on, the first with a phase of 60."""
    for step in range(steps):
        trace, start_ns = f"{step:032x}", 1_000 * step
        yield Span(trace, 0, -1, "application", f"step {step}", start_ns, 100)
        yield Span(trace, 1, 0, "model", "rank 0", start_ns, 100)
        yield Span(trace, 2, 1, "framework", "forward", start_ns, 60)
        yield Span(trace, 3, 0, "model", "rank 1", start_ns + 10, 80)


def test_steps_of_a_training_are_one_frame() -> None:
    """6,000 steps leave no phase out; ranks that run at a time are taken off the step once: nothing is below 0."""
    found = flame_graph(columns_of(table_of(training(6_000))))
    assert rows(found) == [
        (-1, "step", 6_000, 600_000, 0),
        (0, "rank 0", 6_000, 600_000, 240_000),
        (0, "rank 1", 6_000, 480_000, 480_000),
        (1, "forward", 6_000, 360_000, 360_000),
    ]
    assert found["left_out"] == 0
    foreign = [Span(f"{at:032x}", 0, -1, "foreign", f"step {at}", 0, 5) for at in range(2)]
    assert [frame["name"] for frame in flame_graph(columns_of(table_of(foreign)))["frames"]] == [
        "step 0",
        "step 1",
    ]


def parted(*parts_ns: tuple[str, int]) -> list[Span]:
    """A step of each of these parts that takes so many ns, with a phase of half of it."""
    spans = []
    for at, (part, ns) in enumerate(parts_ns):
        trace, start_ns = f"{at:032x}", 10_000 * at
        spans.append(Span(trace, 0, -1, "application", f"step {at}", start_ns, ns, attributes={"part": part}))
        spans.append(Span(trace, 1, 0, "framework", "forward", start_ns, ns // 2))
    return spans


def test_warm_up_is_never_added_to_what_was_measured() -> None:
    """Two measured steps of 100 and 140 ns are 240, not 5,260 with a warm-up of 5,000 and a smaller one of 20; each
    part is there alone, and a step alone whatever part it is of.
    """
    columns = columns_of(
        table_of(parted(("warmup", 5_000), ("measured", 100), ("measured", 140), ("last", 20)))
    )
    found = flame_graph(columns)
    assert rows(found) == [(-1, "step", 2, 240, 120), (0, "forward", 2, 120, 120)]
    assert (found["part"], found["apart"]) == ("measured", {"warmup": 1, "last": 1})
    assert (found["requests"], found["spans"], found["left_out"]) == (2, 4, 0)
    warmup = flame_graph(columns, part="warmup")
    assert rows(warmup)[0] == (-1, "step", 1, 5_000, 2_500)
    assert warmup["apart"] == {"measured": 2, "last": 1}
    alone = flame_graph(columns, trace=f"{3:032x}")
    assert rows(alone)[0] == (-1, "step", 1, 20, 10) and alone["apart"] == {}
    assert timeline(columns)["parts"] == ["warmup", "measured", "measured", "last"]


def test_requests_that_say_no_part_are_measured_ones() -> None:
    """Requests of a served model, whose warm-up is not traced, and an attribute of that name of another tool."""
    served = flame_graph(columns_of(table_of(request(1, 300))))
    assert (served["requests"], served["apart"]) == (1, {})
    foreign = [Span("a" * 32, 0, -1, "foreign", "op", 0, 5, attributes={"part": "warmup"})]
    assert flame_graph(columns_of(table_of(foreign)))["spans"] == 1


def test_what_reaches_beyond_a_span_is_not_taken_off_it() -> None:
    """Of 10 ns 4 are left: one from 2 to 6 and one from 5 to 8 share one; one from 20 on has none of it."""
    start, length = np.array([0, 2, 5, 20]), np.array([10, 4, 3, 9])
    assert own_times(start, length, np.array([-1, 0, 0, 0])).tolist() == [4, 4, 3, 9]


def test_more_frames_than_are_told_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest stay, none without the one around it; of the others the number of spans is said."""
    monkeypatch.setattr(flame, "MOST_FRAMES", 4)
    found = flame_graph(columns_of(table_of(request(1, 300, 200, 100))))
    assert [frame["name"] for frame in found["frames"]] == ["request", "server", "session.run", "layer 0"]
    assert (found["spans"], found["left_out"]) == (4, 2)
    monkeypatch.setattr(flame, "MOST_DEEP", 2)
    found = flame_graph(columns_of(table_of(request(1, 300))))
    assert [frame["name"] for frame in found["frames"]] == ["request", "server"] and found["left_out"] == 2


def test_a_timeline_has_every_span_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns lead back to the spans, parents by their rows; beyond the bound requests are left out."""
    spans = [*request(1, 300, 200), *request(2, 310)]
    told = timeline(columns_of(table_of(spans)))
    of = {name: np.asarray(values).tolist() for name, values in told["columns"].items()}
    parents = [of["number"][row] if row >= 0 else -1 for row in of["parent"]]
    again = [
        Span(
            trace_id=told["requests"][of["request"][at]],
            number=of["number"][at],
            parent=parents[at],
            level=told["levels"][of["level"][at]],
            name=told["names"][of["name"][at]],
            start_ns=int(told["start_ns"]) + of["start_ns"][at],
            duration_ns=of["duration_ns"][at],
            type=told["types"][of["type"][at]],
        )
        for at in range(len(spans))
    ]
    assert again == spans and told["left_out"] == 0
    # Of a request 100 ns are its own, of its server 100, of a run 300 and 490, of layers all.
    assert of["own_ns"] == [100, 100, 300, 300, 200, 100, 100, 490, 310]
    monkeypatch.setattr(timelines, "MOST_SPANS", 8)
    told = timeline(columns_of(table_of(spans)))
    assert (told["spans"], told["left_out"], len(told["columns"]["name"])) == (9, 4, 5)
    alone = timeline(columns_of(table_of(spans)), f"{2:032x}")
    assert alone["requests"] == [f"{2:032x}"] and np.asarray(alone["columns"]["parent"]).tolist() == [
        -1,
        0,
        1,
        2,
    ]


def test_a_table_without_spans() -> None:
    """Is no error."""
    columns = columns_of(table_of([]))
    assert flame_graph(columns)["frames"] == [] and timeline(columns)["requests"] == []


def on_gpu() -> list[Span]:
    """A request with a layer of 10 ns, in which a call of 4 asked for a kernel of 60; that begins before it returns."""
    return [
        *request(1, 10),
        Span(f"{1:032x}", 4, 3, "library", "cudaLaunchKernel", 10_022, 4, "call"),
        Span(f"{1:032x}", 5, 4, "hardware", "gemm", 10_024, 60, "kernel"),
    ]


def test_what_a_gpu_did_is_no_part_of_the_cpu_s_time() -> None:
    """It is in a graph of its own, and counted beside the others; no call has less time of its own by it."""
    columns = columns_of(table_of(on_gpu()))
    for levels in (None, ["layer", "library", "hardware"]):
        found = flame_graph(columns, levels)
        assert rows(found)[-1][1:] == ("cudaLaunchKernel", 1, 4, 4) and found["beside"] == 1
        assert found["left_out"] == 0 and "gemm" not in [row[1] for row in rows(found)]
    alone = flame_graph(columns, ["hardware"])
    assert rows(alone) == [(-1, "gemm", 1, 60, 60)] and alone["beside"] == 0
    assert flame_graph(columns, None, "f" * 32)["beside"] == 0
    drawn = timeline(columns)
    own = dict(
        zip((drawn["names"][at] for at in drawn["columns"]["name"]), drawn["columns"]["own_ns"], strict=True)
    )
    assert (own["cudaLaunchKernel"], own["gemm"], own["layer 0"]) == (4, 60, 6)
