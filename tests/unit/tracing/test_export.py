"""Spans for other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.counters import Track, packed, tracks_in
from inferbench_tasks.tracing.export import write
from inferbench_tasks.tracing.foreign.file import load, read
from inferbench_tasks.tracing.foreign.tree import arranged
from inferbench_tasks.tracing.forms import chrome
from inferbench_tasks.tracing.forms.otlp_json import kind_of, state_of
from inferbench_tasks.tracing.forms.values import fitting
from inferbench_tasks.tracing.spans import LEVELS, LINKS, STATE, Span, id_of, spans_of, table_of
from inferbench_tasks.tracing.spans import write as store

SPANS = [
    Span(
        "a" * 32,
        0,
        -1,
        "application",
        "request",
        10_000,
        9_000,
        attributes={"span_id": "b" * 16, "sample": 4},
    ),
    Span("a" * 32, 1, 0, "model", "server", 11_000, 5_000),
    Span(
        "a" * 32, 2, 1, "layer", "conv", 12_500, 1_500, "Conv", {"shape": [1, 2], "fused": True, "ratio": 0.5}
    ),
]


def chrome_events(spans: list[Span]) -> list[dict[str, Any]]:
    """What the file for Perfetto has of these spans."""
    events: list[dict[str, Any]] = orjson.loads(chrome.content(table_of(spans), {}))["traceEvents"]
    return events


def test_perfetto_s_form(tmp_path: Path) -> None:
    """Times in microseconds from the first span, a row a level, attributes as arguments."""
    assert write(table_of(SPANS), tmp_path / "x.json", {"inferbench.run": "r"}) == 3
    document = orjson.loads((tmp_path / "x.json").read_bytes())
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events] == [
        ("request", 1, 0.0, 9.0), ("server", 2, 1.0, 5.0), ("conv", 4, 2.5, 1.5),
    ]  # fmt: skip
    assert events[2]["cat"] == "Conv" and events[2]["args"]["shape"] == [1, 2]
    assert document["otherData"] == {"inferbench.run": "r"}


def test_who_asks_has_the_span_that_the_server_names() -> None:
    """The part of a request in which its server is asked is the client's: the request around it and what lies beside
    are inside of the process. An imported span keeps the kind of its file."""
    request = Span("a" * 32, 0, -1, "application", "request", 0, 9)
    asking = Span("a" * 32, 1, 0, "application", "to first byte", 2, 6, attributes={"span_id": "b" * 16})
    server = Span("a" * 32, 2, 1, "model", "server", 3, 4)
    assert [kind_of(span) for span in (request, asking, server)] == [1, 3, 2]
    again = Span(
        "a" * 32, 0, -1, "application", "request", 0, 9,
        attributes={"span_id": "d" * 16, "otlp": {"kind": "internal"}},
    )  # fmt: skip
    assert kind_of(again) == 1


def test_otlp_s_form(tmp_path: Path) -> None:
    """Ids in hexadecimal, children name their parents' ids, 64-bit numbers are texts."""
    write(table_of(SPANS), tmp_path / "x.otlp.json", {"inferbench.run": "r"})
    (resource,) = orjson.loads((tmp_path / "x.otlp.json").read_bytes())["resourceSpans"]
    request, server, layer = resource["scopeSpans"][0]["spans"]
    assert (request["spanId"], request["parentSpanId"], request["kind"]) == ("b" * 16, "", 3)
    assert (server["spanId"], server["parentSpanId"], server["kind"]) == (id_of("a" * 32, 1), "b" * 16, 2)
    assert layer["parentSpanId"] == server["spanId"]
    assert (layer["startTimeUnixNano"], layer["endTimeUnixNano"]) == ("12500", "14000")
    values = {each["key"]: each["value"] for each in layer["attributes"]}
    assert values["fused"] == {"boolValue": True} and values["shape"] == {"stringValue": "[1,2]"}
    assert values["inferbench.level"] == {"stringValue": "layer"}
    assert {"key": "inferbench.run", "value": {"stringValue": "r"}} in resource["resource"]["attributes"]


LINK = {"trace_id": "c" * 32, "span_id": "d" * 16}


def test_links_have_the_other_tools_own_fields(tmp_path: Path) -> None:
    """What a batch's span leads to is a link in OTLP and a reference in Jaeger, and an attribute in neither."""
    spans = [SPANS[0], replace(SPANS[1], attributes={"batch": 7, LINKS: [LINK]}), SPANS[2]]
    for ending in ("x.otlp.json", "x.otlp.pb", "x.jaeger.json"):
        write(table_of(spans), tmp_path / ending, {})
    document = orjson.loads((tmp_path / "x.otlp.json").read_bytes())
    first, server, last = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert server["links"] == [{"traceId": "c" * 32, "spanId": "d" * 16}]
    assert "links" not in first and "links" not in last
    assert LINKS not in {each["key"] for each in server["attributes"]}
    official = ExportTraceServiceRequest.FromString((tmp_path / "x.otlp.pb").read_bytes())
    (link,) = official.resource_spans[0].scope_spans[0].spans[1].links
    assert (link.trace_id.hex(), link.span_id.hex()) == ("c" * 32, "d" * 16)
    (trace,) = orjson.loads((tmp_path / "x.jaeger.json").read_bytes())["data"]
    assert trace["spans"][1]["references"] == [
        {"refType": "CHILD_OF", "traceID": "a" * 32, "spanID": "b" * 16},
        {"refType": "FOLLOWS_FROM", "traceID": "c" * 32, "spanID": "d" * 16},
    ]


def test_an_attribute_of_another_tool_that_is_called_links_is_none(tmp_path: Path) -> None:
    """It goes in and out again under a name of its own."""
    given = {
        "traceId": "a" * 32, "spanId": "b" * 16, "name": "x", "startTimeUnixNano": "1000000000",
        "endTimeUnixNano": "1000000001", "attributes": [{"key": LINKS, "value": {"stringValue": "theirs"}}],
    }  # fmt: skip
    path = tmp_path / "theirs.json"
    path.write_bytes(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [given]}]}]}))
    foreign = read(load(path))
    (back,) = arranged(foreign.spans, foreign.findings)
    write(table_of([back]), tmp_path / "x.otlp.json", {})
    (span,) = orjson.loads((tmp_path / "x.otlp.json").read_bytes())["resourceSpans"][0]["scopeSpans"][0][
        "spans"
    ]
    assert "links" not in span
    assert {"key": "attribute links", "value": {"stringValue": "theirs"}} in span["attributes"]


@pytest.mark.parametrize("ending", ["x.otlp.json", "x.otlp.pb"])
def test_a_span_s_state_has_otlp_s_own_field(ending: str, tmp_path: Path) -> None:
    """It is no attribute there; what is imported and goes out again has it still, and a span without has none."""
    first = replace(SPANS[0], attributes={**SPANS[0].attributes, STATE: "ot=th:f,a=1"})
    again = tmp_path / f"again-{ending}"
    write(table_of([first, *SPANS[1:]]), tmp_path / ending, {})
    foreign = read(load(tmp_path / ending))
    back = list(arranged(foreign.spans, foreign.findings))
    assert [span.attributes.get("otlp", {}).get(STATE) for span in back] == ["ot=th:f,a=1", None, None]
    write(table_of(back), again, {})
    assert [state_of(span) for span in back] == ["ot=th:f,a=1", "", ""]
    second = read(load(again))
    assert [
        span.attributes.get("otlp", {}).get(STATE) for span in arranged(second.spans, second.findings)
    ] == ["ot=th:f,a=1", None, None]
    if ending.endswith("json"):
        (resource,) = orjson.loads((tmp_path / ending).read_bytes())["resourceSpans"]
        request, *others = resource["scopeSpans"][0]["spans"]
        assert request["traceState"] == "ot=th:f,a=1"
        assert all(each["key"] != STATE for each in request["attributes"])
        assert all("traceState" not in each for each in others)


def test_parquet_as_stored(tmp_path: Path) -> None:
    """The very file, with what monitors saw, to be read by anybody."""
    track = Track("server's memory", "bytes", [900, 2_500], [7.0, 9.0])
    store(SPANS, tmp_path / "stored", packed([track]))
    table = pq.ParquetFile(tmp_path / "stored").read()
    write(table, tmp_path / "x.parquet", {})
    again = pq.ParquetFile(tmp_path / "x.parquet").read()
    assert list(spans_of(again)) == SPANS and tracks_in(again) == [track]
    assert (tmp_path / "x.parquet").stat().st_size <= (tmp_path / "stored").stat().st_size


def test_another_ending_is_refused(tmp_path: Path) -> None:
    """The endings that there are stand in the error, and nothing is written."""
    with pytest.raises(InputError, match=r"known: \.otlp\.json .*\.jaeger\.json .*\.json .*\.parquet"):
        write(table_of(SPANS), tmp_path / "x.txt", {})
    assert list(tmp_path.iterdir()) == []


def test_otlp_s_protobuf_as_opentelemetry_reads_it(tmp_path: Path) -> None:
    """OpenTelemetry's own definitions find the same ids, times, kinds and attributes; read back they are ours."""
    trace_service_pb2 = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    assert write(table_of(SPANS), tmp_path / "x.otlp.pb", {"inferbench.run": "r"}) == 3
    content = (tmp_path / "x.otlp.pb").read_bytes()
    (resource,) = trace_service_pb2.ExportTraceServiceRequest.FromString(content).resource_spans
    request, server, layer = resource.scope_spans[0].spans
    assert (request.trace_id.hex(), request.span_id.hex(), request.parent_span_id) == (
        "a" * 32,
        "b" * 16,
        b"",
    )
    assert (server.kind, server.parent_span_id.hex()) == (
        2,
        "b" * 16,
    ) and layer.parent_span_id == server.span_id
    assert (layer.start_time_unix_nano, layer.end_time_unix_nano) == (12_500, 14_000)
    values = {each.key: each.value for each in layer.attributes}
    assert values["fused"].bool_value and values["ratio"].double_value == 0.5
    assert values["shape"].string_value == "[1,2]" and values["inferbench.type"].string_value == "Conv"
    assert {each.key: each.value.string_value for each in resource.resource.attributes}[
        "inferbench.run"
    ] == "r"
    foreign = read(load(tmp_path / "x.otlp.pb"))
    back = list(arranged(foreign.spans, foreign.findings))
    assert [(span.level, span.name, span.start_ns, span.duration_ns) for span in back] == [
        (span.level, span.name, span.start_ns, span.duration_ns) for span in SPANS
    ]


def test_what_otlp_has_no_number_for_is_said(tmp_path: Path) -> None:
    """A whole number of more than 64 bits is a text; a time of before 1970 an error, and no file is left."""
    big = Span("a" * 32, 0, -1, "foreign", "x", 5, 1, attributes={"n": 2**70})
    write(table_of([big]), tmp_path / "x.otlp.pb", {})
    write(table_of([big]), tmp_path / "x.jaeger.json", {})
    write(table_of([big]), tmp_path / "x.otlp.json", {})
    assert str(2**70).encode() in (tmp_path / "x.otlp.pb").read_bytes()
    assert f'"stringValue":"{2**70}"'.encode() in (tmp_path / "x.otlp.json").read_bytes()
    with pytest.raises(InputError, match="before 1970"):
        write(table_of([replace(big, start_ns=-5)]), tmp_path / "y.otlp.pb", {})
    within = replace(
        big, attributes={"n": 2**70, "of": [-(2**70), {"m": 2**63}], "fits": 2**63 - 1, "yes": True}
    )
    write(table_of([within]), tmp_path / "x.json", {})
    event = orjson.loads((tmp_path / "x.json").read_bytes())["traceEvents"][-1]
    told = {name: event["args"][name] for name in within.attributes}
    assert told == {"n": str(2**70), "of": [str(-(2**70)), {"m": str(2**63)}], "fits": 2**63 - 1, "yes": True}
    assert {path.name for path in tmp_path.iterdir()} == {
        "x.json",
        "x.otlp.pb",
        "x.otlp.json",
        "x.jaeger.json",
    }


def test_jaeger_s_form(tmp_path: Path) -> None:
    """A trace with its process; children refer to their parents; whole microseconds, and the exact times as tags."""
    write(table_of(SPANS), tmp_path / "x.jaeger.json", {"inferbench.run": "r"})
    (trace,) = orjson.loads((tmp_path / "x.jaeger.json").read_bytes())["data"]
    request, server, layer = trace["spans"]
    assert trace["processes"]["p1"] == {
        "serviceName": "inferbench",
        "tags": [{"key": "inferbench.run", "type": "string", "value": "r"}],
    }
    assert request["references"] == [] and {of["processID"] for of in trace["spans"]} == {"p1"}
    assert layer["references"] == [{"refType": "CHILD_OF", "traceID": "a" * 32, "spanID": server["spanID"]}]
    assert (layer["startTime"], layer["duration"]) == (12, 1)
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in layer["tags"]}
    assert tags["start_ns"] == ("int64", 12_500) and tags["duration_ns"] == ("int64", 1_500)
    assert tags["fused"] == ("bool", True) and tags["ratio"] == ("float64", 0.5)


@pytest.mark.parametrize("trace", ["a" * 32, 'of "another"\ntool'])
def test_perfetto_has_each_span_s_own_attributes(trace: str) -> None:
    """Also where others have the same, or none, or ones that are called as ids are; integers beyond 64 bits as text."""
    shape = {"shape": [1, 2], "text": 'a "b"'}
    told: list[dict[str, Any]] = [
        shape,
        {},
        {"span_id": "b" * 16},
        shape,
        {"trace_id": 5, "n": 2**70},
        {"span_id": 7, "x": None},
        {},
    ]
    spans = [Span(trace, at, -1, "layer", "x", at, 1, attributes=each) for at, each in enumerate(told)]
    events = [event for event in chrome_events(spans) if event["ph"] == "X"]
    assert [event["args"] for event in events] == [
        {"trace_id": trace, "span_id": span.span_id, **fitting(span.attributes)} for span in spans
    ]
    assert events[4]["args"]["trace_id"] == 5 and events[4]["args"]["n"] == str(2**70)


def test_a_trace_without_spans_has_a_file() -> None:
    """With the names of its rows alone."""
    assert {event["ph"] for event in chrome_events([])} == {"M"}


def test_requests_that_overlap_have_rows_of_their_own() -> None:
    """A viewer drops what overlaps on a row: the second of two requests at a time is on its level's second row."""
    spans = [Span(f"{at:032x}", 0, -1, "application", "request", at * 5, 10) for at in range(3)]
    events = chrome_events(spans)
    rows = [event["tid"] for event in events if event["ph"] == "X"]
    names = {of["tid"]: of["args"]["name"] for of in events if of["name"] == "thread_name"}
    assert [names[row] for row in rows] == ["application", "application 2", "application"]


def test_rows_of_a_level_stand_together() -> None:
    """Requests and servers that overlap: each level's rows are in their order, before the next one's."""
    spans = [
        Span(f"{at:032x}", number, number - 1, level, "x", at, 10)
        for at in range(3)
        for number, level in enumerate(LEVELS[:2])
    ]
    events = chrome_events(spans)
    names = {of["tid"]: of["args"]["name"] for of in events if of["name"] == "thread_name"}
    places = {of["tid"]: of["args"]["sort_index"] for of in events if of["name"] == "thread_sort_index"}
    assert [names[row] for row in sorted(names, key=lambda row: places[row])][:6] == [
        "application", "application 2", "application 3", "model", "model 2", "model 3",
    ]  # fmt: skip


def test_a_gpu_has_rows_of_its_own() -> None:
    """What it does overlaps the CPU's spans and, on two streams, itself: viewers drop what overlaps on one row."""
    spans = [
        Span("a" * 32, 0, -1, "application", "request", 0, 100),
        Span("a" * 32, 1, 0, "library", "cudaLaunchKernel", 5, 10),
        Span("a" * 32, 2, 1, "hardware", "gemm", 10, 40),
        Span("a" * 32, 3, 1, "hardware", "copy", 20, 60),
    ]
    events = chrome_events(spans)
    names = {of["tid"]: of["args"]["name"] for of in events if of["name"] == "thread_name"}
    rows = {of["name"]: names[of["tid"]] for of in events if of["ph"] == "X"}
    assert rows == {
        "request": "application", "cudaLaunchKernel": "library", "gemm": "hardware 1", "copy": "hardware 2",
    }  # fmt: skip


def test_what_monitors_saw_is_a_counter_beside_the_spans() -> None:
    """Each sample at its time from the first span on, none before it; the spans are the same ones without it."""
    track = Track("server's memory", "bytes", [900, 2_500], [7.0, 9.0])
    table = table_of(SPANS).replace_schema_metadata(packed([track]))
    events = orjson.loads(chrome.content(table, {}))["traceEvents"]
    first_ns = min(span.start_ns for span in SPANS)
    assert [(of["name"], of["ts"], of["args"]) for of in events if of["ph"] == "C"] == [
        ("server's memory, bytes", max(0, at - first_ns) / 1e3, {"value": value})
        for at, value in ((900, 7.0), (2_500, 9.0))
    ]
    assert [of for of in events if of["ph"] != "C"] == chrome_events(SPANS)


def test_each_rank_of_a_training_is_a_process() -> None:
    """What lies in a rank's step is in its process, named by it; the step of all ranks is in one of its own."""
    spans = [
        Span("a" * 32, 0, -1, "application", "step 0", 1_000, 100),
        Span("a" * 32, 1, 0, "model", "rank 0", 1_000, 100, attributes={"rank": 0}),
        Span("a" * 32, 2, 1, "framework", "forward", 1_010, 60),
        Span("a" * 32, 3, 0, "model", "rank 1", 1_020, 80, attributes={"rank": 1}),
        Span("a" * 32, 4, 3, "framework", "forward", 1_030, 40),
    ]
    events = chrome_events(spans)
    processes = {of["pid"]: of["args"]["name"] for of in events if of["name"] == "process_name"}
    rows = {(of["pid"], of["tid"]): of["args"]["name"] for of in events if of["name"] == "thread_name"}
    assert len({row for _, row in rows}) == len(rows), "no row's number is that of another process's row"
    assert [
        (processes[of["pid"]], rows[of["pid"], of["tid"]], of["name"]) for of in events if of["ph"] == "X"
    ] == [
        ("all ranks", "application", "step 0"),
        ("rank 0", "model", "rank 0"),
        ("rank 0", "framework", "forward"),
        ("rank 1", "model", "rank 1"),
        ("rank 1", "framework", "forward"),
    ]


#: Of another tool: a shop that failed to reach its bank.
FOREIGN = [
    Span("c" * 32, 0, -1, "foreign", "buy", 1_000, 9_000,
         attributes={"otlp": {"service": "shop", "status": "error", "message": "no bank"}}),
    Span("c" * 32, 1, 0, "foreign", "pay", 2_000, 3_000, attributes={"otlp": {"service": "bank"}}),
]  # fmt: skip


def test_another_tool_s_failures_and_services_go_out_again(tmp_path: Path) -> None:
    """Status 2 with its message, a resource or process for each service; Jaeger's tag ``error`` is a boolean."""
    for ending in ("x.otlp.json", "x.jaeger.json"):
        write(table_of(FOREIGN), tmp_path / ending, {"inferbench.note": "n"})
    resources = orjson.loads((tmp_path / "x.otlp.json").read_bytes())["resourceSpans"]
    services = [
        [
            each["value"]["stringValue"]
            for each in of["resource"]["attributes"]
            if each["key"] == "service.name"
        ]
        for of in resources
    ]
    assert services == [["shop"], ["bank"]]
    (buy,), (pay,) = (of["scopeSpans"][0]["spans"] for of in resources)
    assert buy["status"] == {"code": 2, "message": "no bank"} and "status" not in pay
    assert pay["parentSpanId"] == buy["spanId"]
    (trace,) = orjson.loads((tmp_path / "x.jaeger.json").read_bytes())["data"]
    assert [trace["processes"][of["processID"]]["serviceName"] for of in trace["spans"]] == ["shop", "bank"]
    tags = [{tag["key"]: (tag["type"], tag["value"]) for tag in of["tags"]} for of in trace["spans"]]
    assert tags[0]["error"] == ("bool", True) and "error" not in tags[1]
    assert tags[0]["otel.status_description"] == ("string", "no bank")


@pytest.mark.parametrize("ending", ["x.otlp.json", "x.otlp.pb"])
def test_what_otlp_told_is_told_again(ending: str, tmp_path: Path) -> None:
    """An exported trace that is imported again has the same services, status and message."""
    write(table_of(FOREIGN), tmp_path / ending, {})
    foreign = read(load(tmp_path / ending))
    told: list[dict[str, Any]] = [
        span.attributes["otlp"] for span in arranged(foreign.spans, foreign.findings)
    ]
    assert [(of["service"], of.get("status"), of.get("message")) for of in told] == [
        ("shop", "error", "no bank"),
        ("bank", None, None),
    ]
    assert foreign.services == {"shop", "bank"}
