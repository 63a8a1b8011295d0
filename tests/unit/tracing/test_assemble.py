"""Spans from made-up moments: who lies within whom, on which clock, and what is said of what does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inferbench_tasks.tracing.assemble import TOLERANCE_NS, Asked, Assembled, assemble, worst_clock
from inferbench_tasks.tracing.columns import columns_of
from inferbench_tasks.tracing.flame import flame_graph
from inferbench_tasks.tracing.layers import layer_times
from inferbench_tasks.tracing.spans import LINKS, Span, spans_of, table_of

EPOCH_NS = 1_700_000_000_000_000_000
TRACE, SPAN = "a" * 32, "b" * 16
US = 1_000


def asked(trace_id: str = TRACE, at_us: int = 0) -> Asked:
    """A request that is sent 5 us late and takes 1,000 us."""
    start = at_us * US
    return Asked(trace_id, SPAN, 3, start, start + 5 * US, start + 990 * US, start + 1000 * US)


def told(at_us: int = 0, trace_id: str = TRACE, layers: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """What a server says of it: in the server from 100 to 900 us, in the runtime from 310 to 690."""
    names = (
        "started", "received", "decoded", "enqueued", "taken", "joined", "inferred", "split", "resumed", "encoded",
    )  # fmt: skip
    moments = (100, 110, 150, 151, 200, 210, 700, 710, 800, 900)
    row = {f"{name}_ns": (at_us + moment) * US for name, moment in zip(names, moments, strict=True)}
    run: dict[str, Any] = {
        "name": "session.run",
        "start_ns": (at_us + 310) * US,
        "end_ns": (at_us + 690) * US,
        "thread": 1,
        "used": {"cpu_ns": 370 * US, "faults_minor": 0, "wait_for_core_ns": None},
    }
    return {
        "requests": [{**row, "trace_id": trace_id, "parent_id": SPAN, "rows": 1, "unseen": [], "used": {}}],
        "runs": [run],
        "layers": layers or [],
        "lost": 0,
        "ignored": 0,
        "epoch_offsets": [
            {"offset_ns": EPOCH_NS, "error_ns": 80},
            {"offset_ns": EPOCH_NS + 40, "error_ns": 60},
        ],
    }


def layer(name: str, start_us: float, end_us: float, type_: str = "Conv") -> dict[str, Any]:
    """A layer in Unix time, as a runtime tells it."""
    return {
        "name": name,
        "type": type_,
        "start_ns": EPOCH_NS + round(start_us * US),
        "end_ns": EPOCH_NS + round(end_us * US),
        "attributes": {"output_bytes": 64, "provider": None},
    }


def test_every_span_lies_within_its_parent() -> None:
    """Request, its three parts at the client, server, its eight parts, the run, two layers: sixteen spans of one trace,
    none a defect."""
    made = assemble([asked()], told(layers=[layer("a", 320, 400), layer("b", 410, 680)]), 0)
    assert len(made.spans) == 16 and made.defects == 0 and made.unanswered == 0
    names = {span.number: span.name for span in made.spans}
    within = {span.name: names.get(span.parent) for span in made.spans}
    assert within["request"] is None and within["server"] == "to first byte" and within["queue"] == "server"
    assert within["session.run"] == "inference" and within["a"] == within["b"] == "session.run"
    request = made.spans[0]
    assert (request.start_ns, request.duration_ns) == (EPOCH_NS, 1000 * US)
    queue = next(span for span in made.spans if span.name == "queue")
    assert (queue.start_ns, queue.duration_ns) == (EPOCH_NS + 151 * US, 49 * US)
    assert made.clock == {"error_ns": 80, "drift_ns": 40}


def test_the_parts_at_the_client_are_the_request() -> None:
    """One behind the other, so that none of its time is its own or counts twice; the server is asked in the second,
    whose id stands in the traceparent. A client that does not know its first byte has two parts."""
    made = assemble([asked()], told(), 0).spans
    request, *parts = (span for span in made if span.level == "application")
    assert [(span.name, span.parent, span.start_ns - EPOCH_NS, span.duration_ns) for span in parts] == [
        ("wait to send", 0, 0, 5 * US), ("to first byte", 0, 5 * US, 985 * US), ("to last byte", 0, 990 * US, 10 * US),
    ]  # fmt: skip
    assert sum(span.duration_ns for span in parts) == request.duration_ns
    assert [span.span_id == SPAN for span in (request, *parts)] == [False, False, True, False]
    frames = flame_graph(columns_of(table_of(made)))["frames"]
    assert sum(frame["self_ns"] for frame in frames) == frames[0]["total_ns"] == 1000 * US
    assert frames[0]["self_ns"] == 0
    blind = assemble([replace(asked(), first_byte_ns=-1)], told(), 0).spans
    assert [(span.name, span.duration_ns) for span in blind[1:3]] == [
        ("wait to send", 5 * US), ("to last byte", 995 * US),
    ]  # fmt: skip
    assert blind[2].span_id == SPAN and (blind[3].name, blind[3].parent) == ("server", 2)


def test_processors_at_the_client_are_parts_of_the_request() -> None:
    """A request of 1,000 us that is begun with after 2 us, processed for 20, sent 3 us later, answered by 953 and gone
    on with at 960, behind the answers that came with it: its seven parts add up to it. The server is in none of the
    processors' parts, whose attributes say how long each worked; what its latency counts from is the beginning of the
    first."""
    before = {"started_ns": 2 * US, "ended_ns": 22 * US, "worked_ns": {"image": 15 * US}}
    after = {"started_ns": 960 * US, "ended_ns": 997 * US, "worked_ns": {"labels": 30 * US}}
    request = replace(
        asked(), sent_ns=25 * US, first_byte_ns=950 * US, before=before, after=after, answered_ns=953 * US
    )
    assert request.latency_ns == 998 * US and asked().latency_ns == 995 * US
    made = assemble([request], told(), 0)
    root, *parts = (span for span in made.spans if span.level == "application")
    assert [(each.name, each.start_ns - EPOCH_NS, each.duration_ns) for each in parts] == [
        ("wait to begin", 0, 2 * US), ("pre-process", 2 * US, 20 * US), ("wait to send", 22 * US, 3 * US),
        ("to first byte", 25 * US, 925 * US), ("to last byte", 950 * US, 3 * US), ("wait to process", 953 * US, 7 * US),
        ("post-process", 960 * US, 40 * US),
    ]  # fmt: skip
    assert sum(each.duration_ns for each in parts) == root.duration_ns == 1000 * US
    assert [each.attributes for each in parts] == [
        {}, {"image_ns": 15 * US}, {}, {"span_id": SPAN}, {}, {}, {"labels_ns": 30 * US},
    ]  # fmt: skip
    server = next(span for span in made.spans if span.name == "server")
    assert server.parent == parts[3].number and made.defects == 0
    blind = assemble([replace(request, first_byte_ns=-1)], told(), 0).spans
    assert [(span.name, span.duration_ns) for span in blind[4:7]] == [
        ("to last byte", 928 * US), ("wait to process", 7 * US), ("post-process", 40 * US),
    ]  # fmt: skip
    assert blind[4].span_id == SPAN and (blind[7].name, blind[7].parent) == ("server", 4)


def test_a_run_has_its_runtimes_name() -> None:
    """A module's call is no session's run."""
    server = told()
    server["runs"][0]["name"] = "module call"
    names = [span.name for span in assemble([asked()], server, 0).spans if span.level == "framework"]
    assert names == ["module call"]


def test_what_was_used_stands_at_what_used_it() -> None:
    """A run has its thread's figures, the request in the server its process's; what nobody told is left out."""
    server = told()
    server["requests"][0]["used"] = {"process_cpu_ns": 500 * US, "process_wait_for_core_ns": None}
    about = {span.name: span.attributes for span in assemble([asked()], server, 0).spans}
    assert about["session.run"] == {"cpu_ns": 370 * US, "faults_minor": 0}
    assert about["server"] == {"rows": 1, "process_cpu_ns": 500 * US}
    assert about["queue"] == {}


def test_what_is_of_a_batch_says_so_and_links_to_the_others_of_it() -> None:
    """Three requests were executed together, two of them traced: the inference of each is the batch's, says of how many
    requests and rows, and leads to the other's request. The next batch, of one request, is the request's own."""
    other, alone = "c" * 32, "e" * 32
    rows = [
        {**told(trace_id=trace)["requests"][0], "batch": {"number": 7, "requests": 3, "rows": 5}}
        for trace in (TRACE, other)
    ]
    rows.append({**told(trace_id=alone)["requests"][0], "batch": None})
    made = assemble([asked(), asked(other), asked(alone)], {**told(), "requests": rows}, 0)
    about = {span.trace_id: span.attributes for span in made.spans if span.name == "inference"}
    batch = {"batch": 7, "batch_requests": 3, "batch_rows": 5}
    assert about == {
        TRACE: {**batch, LINKS: [{"trace_id": other, "span_id": SPAN}]},
        other: {**batch, LINKS: [{"trace_id": TRACE, "span_id": SPAN}]},
        alone: {},
    }
    assert all(LINKS not in span.attributes for span in made.spans if span.name != "inference")
    one = assemble(
        [asked()], {**told(), "requests": rows}, 0
    )  # the other's span is in no trace: nothing to lead to
    assert next(span.attributes for span in one.spans if span.name == "inference") == batch


def test_layers_of_other_requests_stay_theirs() -> None:
    """Two requests in a row: each run has the layers that began in it."""
    one, two = told(), told(at_us=2000, trace_id="c" * 32)
    both = {**one, "requests": one["requests"] + two["requests"], "runs": one["runs"] + two["runs"]}
    both["layers"] = [layer("x", 330, 600), layer("x", 2330, 2650)]
    made = assemble([asked(), asked("c" * 32, at_us=2000)], both, 0)
    found = {span.trace_id: span.duration_ns for span in made.spans if span.level == "layer"}
    assert found == {TRACE: 270 * US, "c" * 32: 320 * US}


def test_bodies_of_loops_are_no_second_time() -> None:
    """A layer within a layer is its child, and only the outer one counts in the sum."""
    layers = [
        layer("loop", 320, 620, "Loop"),
        layer("body", 330, 430),
        layer("body", 440, 540),
        layer("last", 630, 680),
    ]
    made = assemble([asked()], told(layers=layers), 0)
    names = {span.number: span.name for span in made.spans}
    assert [names[s.parent] for s in made.spans if s.name == "body"] == ["loop", "loop"]
    times = layer_times(made.spans)
    assert times is not None
    assert [each.name for each in times.layers] == ["loop", "last"]
    assert times.explained_ratio == pytest.approx(350 / 380)
    assert times.by_type()[0] == {
        "type": "Loop",
        "count": 1,
        "ms": 0.3,
        "share_ratio": pytest.approx(300 / 350),
    }


def test_layers_that_take_no_time_have_no_share() -> None:
    """Whole microseconds, rounded down, may be 0 for all of a model's layers: nothing is divided by their sum."""
    times = layer_times(assemble([asked()], told(layers=[layer("a", 320, 320)]), 0).spans)
    assert times is not None and times.explained_ratio == 0
    assert times.by_type() == [{"type": "Conv", "count": 1, "ms": 0, "share_ratio": None}]


def test_what_reaches_beyond_its_parent_is_counted() -> None:
    """A layer that ends 60 us after its run is a defect of the trace; 40 us are within what the clocks can tell."""
    beyond = (TOLERANCE_NS + 10 * US) / US
    assert assemble([asked()], told(layers=[layer("a", 320, 690 + beyond)]), 0).defects == 1
    assert assemble([asked()], told(layers=[layer("a", 320, 690 + 40)]), 0).defects == 0


def test_what_the_server_does_not_tell_is_said() -> None:
    """A request that the server knows nothing of has its client's spans alone, and is counted."""
    made = assemble([asked(), asked("d" * 32)], told(), 0)
    assert made.unanswered == 1
    assert {span.level for span in made.spans if span.trace_id == "d" * 32} == {"application"}


def test_without_a_server_s_word_there_are_the_client_s_spans() -> None:
    """The level without instruments: requests and their parts only, on the client's own clock."""
    made = assemble([asked()], None, 7)
    assert [(span.name, span.start_ns) for span in made.spans] == [
        ("request", 7), ("wait to send", 7), ("to first byte", 7 + 5 * US), ("to last byte", 7 + 990 * US),
    ]  # fmt: skip
    assert layer_times(made.spans) is None


def test_a_layer_is_the_same_one_in_every_run() -> None:
    """Of three runs the median of each layer stands, by name and place."""
    spans: list[Span] = []
    for number, us in enumerate((10, 30, 20)):
        trace = str(number) * 32
        spans += [
            Span(trace, 0, -1, "framework", "session.run", 0, 100 * US),
            Span(trace, 1, 0, "layer", "a", 0, us * US, "Conv"),
            Span(trace, 2, 0, "layer", "a", 50 * US, 2 * us * US, "Conv"),
        ]
    times = layer_times(spans)
    assert times is not None
    assert [(each.order, each.median_ms) for each in times.layers] == [(0, 0.02), (1, 0.04)]
    assert times.framework_ms == 0.1 and times.explained_ratio == pytest.approx(0.6)


def test_spans_are_stored_as_they_are() -> None:
    """What is read back from the table is what went in."""
    made = assemble([asked()], told(layers=[layer("a", 320, 400)]), 0)
    assert list(spans_of(table_of(made.spans))) == made.spans


def test_what_a_layer_ran_lies_within_it() -> None:
    """Each within what ran it; what reaches beyond is a defect, and the request says which instruments were on."""
    inner = layer("jit", 330, 390, "convolution") | {"inside": []}
    outer = layer("aten::conv2d", 320, 400, "conv2d") | {"inside": [inner]}
    late = layer("aten::relu", 410, 900, "relu") | {"inside": []}
    layers = [layer("a", 320, 400) | {"inside": [outer]}, layer("b", 410, 680) | {"inside": [late]}]
    made = assemble([asked()], told(layers=layers), 0, level="library")
    names = {span.number: span.name for span in made.spans}
    within = {span.name: names[span.parent] for span in made.spans if span.level == "library"}
    assert within == {"aten::conv2d": "a", "jit": "aten::conv2d", "aten::relu": "b"}
    assert made.defects == 1
    assert made.spans[0].attributes["instrumented"] == "library"
    assert "instrumented" not in assemble([asked()], told(), 0).spans[0].attributes


def test_what_nobody_saw_is_no_span() -> None:
    """Over gRPC a library reads requests: there is no span of it, rather than one that took no time."""
    server = told()
    server["requests"][0]["unseen"] = ["read"]
    names = [span.name for span in assemble([asked()], server, 0).spans]
    assert "decode" in names and "read" not in names


def test_what_a_request_of_a_load_says_of_itself() -> None:
    """Its number, of how many it was chosen, and its state; the server's span has the state as the server got it."""
    server = told() | {"ignored_states": 3}
    server["requests"][0]["tracestate"] = "proxy=1,ot=th:f"
    about = {"request": 41, "one_in": 16, "tracestate": "ot=th:f"}
    made = assemble([replace(asked(), about=about)], server, 0)
    root, inside = made.spans[0], made.spans[4]
    assert {name: root.attributes[name] for name in about} == about
    assert (inside.name, inside.attributes) == ("server", {"rows": 1, "tracestate": "proxy=1,ot=th:f"})
    assert made.ignored_states == 3 and assemble([asked()], told(), 0).ignored_states == 0


def test_of_several_servers_the_worst_clock_counts() -> None:
    """The largest error, and the largest drift of either sign; of none there is nothing."""
    clocks = [{"error_ns": 80, "drift_ns": 40}, {}, {"error_ns": 20, "drift_ns": -90}]
    assert worst_clock([Assembled(clock=clock) for clock in clocks]) == {"error_ns": 80, "drift_ns": -90}
    assert worst_clock([Assembled()]) == {}


def test_a_server_that_knows_of_no_request_is_told_of() -> None:
    """It wrote its file, and no request of ours is in it: each is counted, as are contexts that were none."""
    server = told() | {"requests": [], "ignored": 2}
    found = assemble([asked()], server, 0)
    assert (found.unanswered, found.ignored) == (1, 2)
    assert assemble([asked()], None, 0).unanswered == 0


def sent(name: str, span_id: str, parent_id: str, start_us: int, end_us: int) -> dict[str, Any]:
    """A span that a server of another maker sent, Unix time."""
    return {
        "trace_id": TRACE,
        "span_id": span_id * 16,
        "parent_id": parent_id,
        "name": name,
        "start_ns": EPOCH_NS + start_us * US,
        "end_ns": EPOCH_NS + end_us * US,
        "attributes": {"span_id": span_id * 16},
    }


def test_what_others_sent_lies_where_they_say() -> None:
    """Each in the span that it names, by time, with its own id; what leads to no request of ours is left out, circles
    too, and one beyond its parent is a defect.
    """
    spans = [
        sent("compute", "3", "2" * 16, 300, 600),
        sent("queue", "4", "2" * 16, 200, 300),
        sent("server", "2", SPAN, 100, 900),
        sent("lost", "5", "9" * 16, 100, 200),
        sent("circle", "6", "7" * 16, 100, 200),
        sent("circle", "7", "6" * 16, 100, 200),
    ]
    server = told() | {"requests": [], "runs": [], "spans": spans}
    made = assemble([asked()], server, 0)
    names = {span.number: span.name for span in made.spans}
    found = [(span.name, names.get(span.parent), span.level) for span in made.spans]
    assert found[4:] == [
        ("server", "to first byte", "model"), ("queue", "server", "model"), ("compute", "server", "model"),
    ]  # fmt: skip
    assert all(level == "application" for _, _, level in found[:4])
    assert made.spans[-1].span_id == "3" * 16 and (made.defects, made.unanswered) == (0, 0)
    late = server | {"spans": [sent("server", "2", SPAN, 100, 1060)]}
    assert assemble([asked()], late, 0).defects == 1
    assert assemble([asked()], server | {"spans": spans[3:]}, 0).unanswered == 1


def test_what_sampling_came_to_is_handed_on() -> None:
    """Of each source that samples; a server of before tells nothing of it."""
    lossy = {"runs": 3, "left_out": 1, "lost": 9}
    assert assemble([asked()], told() | {"sampling": [lossy]}, 0).samplings == [lossy]
    assert assemble([asked()], told(), 0).samplings == assemble([asked()], told(), 0).outside == []
    outside = {"primitives": 2, "ns": 900}
    assert assemble([asked()], told() | {"outside": [outside]}, 0).outside == [outside]


def on_gpu(name: str, asked_us: float, start_us: float, end_us: float) -> dict[str, Any]:
    """A layer of 20 us from ``asked_us`` on, whose call of 10 asked a GPU for a kernel at these moments."""
    kernel = layer(name, start_us, end_us, "kernel") | {"level": "hardware", "inside": []}
    call = layer("cudaLaunchKernel", asked_us, asked_us + 10, "call") | {"inside": [kernel]}
    made = layer(name, asked_us, asked_us + 20, "linear") | {"inside": [call]}
    made["attributes"]["gpu_ns"] = round((end_us - start_us) * US)
    return made


def test_what_a_gpu_does_is_over_with_its_run_not_with_its_layer() -> None:
    """A kernel may begin and end after its call has returned, and no earlier than that began: one that does, or that
    goes on after its run, is a defect. Layers' times are the GPU's, and their sum is compared with the run."""
    good = [on_gpu("a", 320, 325, 500), on_gpu("b", 345, 500, 600)]
    made = assemble([asked()], told(layers=good), 0, level="library")
    assert made.defects == 0
    kernels = [span for span in made.spans if span.level == "hardware"]
    assert [span.name for span in kernels] == ["a", "b"]
    assert all(made.spans[span.parent].name == "cudaLaunchKernel" for span in kernels)
    found = layer_times(made.spans)
    assert found is not None and [each.median_ms for each in found.layers] == [0.175, 0.1]
    assert found.explained_ratio == pytest.approx(275 / 380)
    for bad in (on_gpu("early", 400, 340, 460), on_gpu("late", 400, 600, 900)):
        assert assemble([asked()], told(layers=[bad]), 0).defects == 1


def test_a_layer_of_no_time_is_none_of_its_neighbour() -> None:
    """At the end of one it is the next one; within one it is of this, as the bodies of loops are."""
    layers = [layer("a", 320, 323), layer("b", 323, 323), layer("loop", 330, 340), layer("body", 335, 335)]
    made = assemble([asked()], told(layers=layers), 0)
    names = {span.number: span.name for span in made.spans}
    found = {span.name: names[span.parent] for span in made.spans if span.level == "layer"}
    assert found["a"] == found["b"] == found["loop"] != "a" and found["body"] == "loop"


def test_what_the_cpu_did_beside_a_gpu_counts_once() -> None:
    """A run of 97 us: the kernel from 2 to 96 is its layer's 94 us, and of a layer on the CPU from 6 to 96 nothing is
    left. Of one that goes on for 10 us after a kernel of 20 that is all; a loop has both times of what is in it."""
    conv, nms, loop = on_gpu("conv", 301, 302, 396), layer("nms", 306, 396), layer("loop", 396, 396.5)
    nms["attributes"]["alone_ns"] = 0
    server = told(layers=[conv | {"end_ns": EPOCH_NS + 305 * US}, nms])
    server["runs"] = [{**server["runs"][0], "start_ns": 300 * US, "end_ns": 397 * US}]
    found = layer_times(assemble([asked()], server, 0).spans)
    assert found is not None and [each.median_ms for each in found.layers] == [0.094, 0]
    assert found.explained_ratio == pytest.approx(94 / 97)
    loop["attributes"] |= {"gpu_ns": 20 * US, "alone_ns": 10 * US}
    found = layer_times(assemble([asked()], told(layers=[loop]), 0).spans)
    assert found is not None and [each.median_ms for each in found.layers] == [0.03]


def test_how_far_a_gpu_s_moments_may_be_off_is_of_the_clock() -> None:
    """The worst of all servers that had one; a server without says nothing of it."""
    made = assemble([asked()], told() | {"gpu_clock_errors_ns": [8_000, 9_000], "why_lost": ["x"]}, 0)
    assert made.clock["gpu_error_ns"] == 9_000 and made.why_lost == ["x"]
    plain = assemble([asked()], told(), 0)
    assert "gpu_error_ns" not in plain.clock
    assert worst_clock([plain, made])["gpu_error_ns"] == 9_000
