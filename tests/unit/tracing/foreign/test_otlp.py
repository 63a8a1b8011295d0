"""OTLP from files: as Triton and collectors write it, and as nobody should."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.proto.trace.v1 import trace_pb2

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.export import write
from inferbench_tasks.tracing.foreign.base import MAX_BYTES
from inferbench_tasks.tracing.foreign.file import load
from inferbench_tasks.tracing.spans import Span, table_of
from tests.unit.tracing.foreign.files import TRACE, otlp, otlp_span, read_back

US = 1_000


def two() -> tuple[dict[str, Any], dict[str, Any]]:
    """A request, and what it asked another service for."""
    attributes = [
        {"key": "rows", "value": {"intValue": "-3"}}, {"key": "ok", "value": {"boolValue": True}},
        {"key": "shape", "value": {"arrayValue": {"values": [{"intValue": "1"}, {"doubleValue": 0.5}]}}},
        {"key": "span_id", "value": {"stringValue": "theirs"}},
    ]  # fmt: skip
    asked = otlp_span(1, None, 1_000 * US, 9_000 * US, kind=2)
    return asked, otlp_span(
        2, 1, 2_000 * US, 5_000 * US, kind="SPAN_KIND_CLIENT", attributes=attributes, events=[{}]
    )


def test_json_with_hexadecimal_ids(tmp_path: Path) -> None:
    """Times in Unix ns, parents by their ids, attributes as plain values, what OTLP says besides under `otlp`."""
    (asked, asks), findings = read_back(tmp_path, otlp(*reversed(two())))
    assert (asked.trace_id, asked.number, asked.parent, asked.start_ns, asked.duration_ns) == (
        TRACE, 0, -1, 1_000_000, 8_000_000,
    )  # fmt: skip
    assert (asks.number, asks.parent, asks.span_id, asks.level) == (1, 0, f"{2:016x}", "foreign")
    assert asks.attributes == {
        "rows": -3, "ok": True, "shape": [1, 0.5], "attribute span_id": "theirs", "span_id": f"{2:016x}",
        "otlp": {"service": "shop", "scope": "its library", "kind": "client", "events": 1},
    }  # fmt: skip
    assert findings.as_rows() == []


def test_protobuf_of_opentelemetry_s_own_definitions(tmp_path: Path) -> None:
    """The same spans, whoever says who they are behind them; packed or not, twice one behind the other."""
    data = trace_pb2.TracesData()
    of_scope = data.resource_spans.add().scope_spans.add()
    of_scope.scope.name = "its library"
    for number, parent, start_us, end_us, kind in ((2, 1, 2_000, 5_000, 3), (1, 0, 1_000, 9_000, 2)):
        span = of_scope.spans.add(
            trace_id=bytes.fromhex(TRACE), span_id=number.to_bytes(8), name=f"op {number}", kind=kind,
            parent_span_id=parent.to_bytes(8) if parent else b"",
            start_time_unix_nano=start_us * US, end_time_unix_nano=end_us * US,
        )  # fmt: skip
        if number == 2:
            span.events.add(name="retried")
            for name, value in (("rows", -3), ("ok", True), ("span_id", "theirs")):
                each = span.attributes.add(key=name).value
                kind_of = {int: "int_value", bool: "bool_value", str: "string_value"}[type(value)]
                setattr(each, kind_of, value)
            shape = span.attributes.add(key="shape").value.array_value
            shape.values.add(int_value=1)
            shape.values.add(double_value=0.5)
    first = data.SerializeToString()
    service = trace_pb2.ResourceSpans()
    service.resource.attributes.add(key="service.name").value.string_value = "shop"
    # The same message, its resource behind its spans: fields come in any order.
    inner = data.resource_spans[0].SerializeToString() + service.SerializeToString()
    content = b"\n" + bytes([len(inner) & 127 | 128, len(inner) >> 7]) + inner
    expected, _ = read_back(tmp_path, otlp(*two()))
    spans, findings = read_back(tmp_path, content)
    assert spans == expected
    assert findings.as_rows() == []
    assert read_back(tmp_path, gzip.compress(content))[0] == expected
    twice, findings = read_back(tmp_path, content + content)
    assert twice == expected
    assert findings.counts == {"is there twice, and kept once": 2}
    assert [span.name for span in read_back(tmp_path, first)[0]] == ["op 1", "op 2"]


def test_a_collector_s_lines(tmp_path: Path) -> None:
    """A document on each line is read line by line; what is wrong is told with its line."""
    first, second = (otlp(span) for span in two())
    spans, _ = read_back(tmp_path, first + b"\n\n" + second + b"\n")
    assert [span.name for span in spans] == ["op 1", "op 2"]
    with pytest.raises(InputError, match=r"line 3, column \d+: no JSON: .*cut off"):
        read_back(tmp_path, first + b"\n\n" + second[:-20])


def test_what_we_export_comes_back(tmp_path: Path) -> None:
    """Our levels, types, parents, times and attributes survive OTLP; no verdict comes with them."""
    ours = [
        Span(TRACE, 0, -1, "application", "request", 10_000, 9_000, attributes={"span_id": "b" * 16, "sample": 4}),
        Span(TRACE, 1, 0, "model", "server", 11_000, 5_000),
        Span(TRACE, 2, 1, "layer", "conv", 12_500, 1_500, "Conv", {"ratio": 0.5}),
    ]  # fmt: skip
    write(table_of(ours), tmp_path / "x.otlp.json", {"inferbench.verdict": "valid"})
    spans, _ = read_back(tmp_path, (tmp_path / "x.otlp.json").read_bytes())
    kept = ("trace_id", "number", "parent", "level", "name", "start_ns", "duration_ns", "type", "span_id")
    assert [[getattr(s, k) for k in kept] for s in spans] == [[getattr(s, k) for k in kept] for s in ours]
    assert spans[2].attributes["ratio"] == 0.5 and "valid" not in str([s.attributes for s in spans])


def test_times_from_zero_on_are_a_clock_of_ones_own(tmp_path: Path) -> None:
    """A span from 0 to 5 ms is one; from 0 to the year 2023 none: its beginning was never set, and 54 years would be
    all that is seen of a trace."""
    spans, findings = read_back(
        tmp_path, otlp(otlp_span(1, None, 0, 5_000 * US), otlp_span(2, None, 0, 1_700_000_000 * 10**9))
    )
    assert [(span.name, span.duration_ns) for span in spans] == [("op 1", 5_000_000)]
    assert [row["what"] for row in findings.as_rows()] == ["has no beginning, and is left out"]


def test_what_is_told_and_kept(tmp_path: Path) -> None:
    """A missing parent, a reach beyond it by more than 50 us, a negative duration, no end: counted, with place."""
    spans, findings = read_back(
        tmp_path,
        otlp(
            otlp_span(1, 99, 1_000 * US, 9_000 * US),
            otlp_span(2, 1, 2_000 * US, 9_050 * US),
            otlp_span(3, 1, 2_000 * US, 9_051 * US),
            otlp_span(4, 1, 5_000 * US, 4_000 * US),
            otlp_span(5, 1, 5_000 * US, 0),
            otlp_span(6, 1, 0, 1_700_000_000 * 1_000_000 * US),
        ),
    )
    assert [(span.name, span.parent, span.duration_ns) for span in spans] == [
        ("op 1", -1, 8_000_000), ("op 2", 0, 7_050_000), ("op 3", 0, 7_051_000), ("op 4", 0, -1_000_000),
    ]  # fmt: skip
    found = {row["what"]: row["first"] for row in findings.as_rows()}
    assert found["has a parent that is not in the file"] == [f"span 1, id {1:016x}, parent {99:016x}"]
    assert found["reaches beyond its parent"] == [f"span 3, id {3:016x}: by 51,000 ns"]
    assert found["ends before it begins"] == [f"span 4, id {4:016x}: -1,000,000 ns"]
    assert found["has no end, and is left out"] == [f"span 5, id {5:016x}"]
    assert found["has no beginning, and is left out"] == [f"span 6, id {6:016x}"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"spanId": "AAAAAAAAAAE="}, r"spans\[1\]: span 2: spanId .*base64"),
        ({"traceId": "S/kvNXezTaajzpKdDg5HNg=="}, r"spans\[1\].*traceId .*32 hexadecimal.*base64"),
        ({"traceId": "0" * 32}, "traceId is all zeros"),
        ({"spanId": None}, "spanId is 'NoneType'"),
        ({"parentSpanId": "xyz"}, "parentSpanId is 'xyz', not 16"),
        ({"startTimeUnixNano": "-5"}, r"spans\[1\].startTimeUnixNano is '-5', no whole number"),
        ({"startTimeUnixNano": 1e18}, r"startTimeUnixNano is '1e\+18', no whole number"),
        ({"endTimeUnixNano": str(2**63)}, "in the year 2262"),
        ({"attributes": {"rows": 1}}, "attributes is no list"),
        ({"attributes": [{"value": {}}]}, "each has a `key`"),
        ({"attributes": [{"key": "rows", "value": 1}]}, "attributes, rows: no value as OTLP has it"),
        ({"name": 3}, "name is no text"),
        ({"spanId": f"{1:016x}"}, "span 2: its id .* is that of span 1, too, and they differ"),
    ],
)
def test_what_is_refused(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    """Ids, times and attributes that are none: with the place in the file."""
    first, second = two()
    with pytest.raises(InputError, match=words):
        read_back(tmp_path, otlp(first, second | changed))


def test_any_value_anywhere_is_an_error_or_a_span(tmp_path: Path) -> None:
    """Each field of a span with values of every type: an error of ours or spans that are stored, nothing else."""
    odd: tuple[Any, ...] = (
        None, True, -1, 0, 1e300, float(2**64), "", "x", "\0", [], {}, [[]], {"values": 1},
        [{"key": "a", "value": {"x": []}}],
    )  # fmt: skip
    span = otlp_span(1, None, 1, 2, kind=1, attributes=[], events=[], links=[], status={})
    read = 0
    for name in span:
        for value in odd:
            with contextlib.suppress(InputError):
                spans, _ = read_back(tmp_path, otlp(span | {name: value}))
                table_of(spans)
                read += 1
    assert 20 < read < len(span) * len(odd)


def test_cycles_are_refused(tmp_path: Path) -> None:
    """A span that is its own parent, and a longer cycle with spans that hang on it: the cycle is named, and no more."""
    with pytest.raises(InputError, match=r"a cycle of 1 spans, .*span 1, id 0{15}1$"):
        read_back(tmp_path, otlp(otlp_span(1, 1, 5, 9)))
    spans = [otlp_span(1, 3, 5, 9), otlp_span(2, 1, 5, 9), otlp_span(3, 2, 5, 9), otlp_span(4, 3, 5, 9)]
    with pytest.raises(InputError, match="a cycle of 3 spans") as refused:
        read_back(tmp_path, otlp(otlp_span(9, None, 1, 2), *spans))
    assert "span 5" not in str(refused.value)


def test_a_long_chain_is_no_recursion(tmp_path: Path) -> None:
    """20,000 spans, each within the one before: stored in that order."""
    spans, findings = read_back(
        tmp_path, otlp(*(otlp_span(at + 1, at or None, at, 90_000 - at) for at in range(20_000)))
    )
    assert [span.parent for span in spans] == list(range(-1, 19_999))
    assert not findings.counts


def test_nesting_is_bounded(tmp_path: Path) -> None:
    """JSON and attributes nested a thousand times: an error, no crash."""
    deep: dict[str, Any] = {"intValue": "1"}
    for _ in range(30):
        deep = {"arrayValue": {"values": [deep]}}
    span = otlp_span(1, None, 1, 2, attributes=[{"key": "deep", "value": deep}])
    with pytest.raises(InputError, match=r"spans\[0\]: an attribute is nested deeper than 20 levels"):
        read_back(tmp_path, otlp(span))
    for depth in (900, 100_000):
        with pytest.raises(InputError):
            read_back(tmp_path, b'{"resourceSpans":' + b"[" * depth + b"]" * depth + b"}")


def test_bytes_that_are_no_trace(tmp_path: Path) -> None:
    """Cut off, empty, random, another JSON: an error with the place and what is allowed, whatever the length."""
    whole = otlp(*two())
    data = trace_pb2.TracesData()
    data.resource_spans.add().scope_spans.add().spans.add(
        trace_id=bytes.fromhex(TRACE), span_id=bytes(7) + b"\1", end_time_unix_nano=5
    )
    protobuf = data.SerializeToString()
    assert len(read_back(tmp_path, protobuf)[0]) == 1
    for content in (whole, protobuf, gzip.compress(whole)):
        for length in range(len(content)):
            with pytest.raises(InputError):
                read_back(tmp_path, content[:length])
    with pytest.raises(InputError, match="column 601: no JSON: .*; the file ends there: it is cut off"):
        read_back(tmp_path, whole[:600])
    with pytest.raises(InputError, match="byte 0: a field of .* reaches beyond the end"):
        read_back(tmp_path, protobuf[:-1])
    with pytest.raises(InputError, match="neither `resourceSpans` nor `traceEvents`; allowed are OTLP"):
        read_back(tmp_path, orjson.dumps({"data": []}))
    with pytest.raises(InputError, match="is no trace; allowed are OTLP"):
        read_back(tmp_path, b"\x89PNG\r\n")


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A file of 2 GB, one that unpacks to more than the bound, a folder, a device: refused at once."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(InputError, match="has 2,147,483,648 bytes, allowed are 268,435,456"):
        load(large)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(MAX_BYTES + 1), compresslevel=1))
    with pytest.raises(InputError, match="unpacks to more than"):
        load(bomb)
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match="is no file"):
            load(path)
    with pytest.raises(InputError, match="is not there"):
        load(tmp_path / "none")


def test_more_values_or_spans_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is counted before it is parsed, spans while they are read, protobuf's lists too."""
    monkeypatch.setattr("inferbench_tasks.tracing.foreign.otlp_protobuf._MOST_FIELDS", 2_000)
    with pytest.raises(InputError, match=r"byte 4000: more than 2,000 fields"):
        read_back(tmp_path, b"\n\0" * 2_001)
    monkeypatch.setattr("inferbench_tasks.tracing.foreign.documents.MOST_VALUES", 10)
    with pytest.raises(InputError, match="values, allowed are 10"):
        read_back(tmp_path, otlp(*two()))
    monkeypatch.undo()
    monkeypatch.setattr("inferbench_tasks.tracing.foreign.base.MAX_SPANS", 1)
    with pytest.raises(InputError, match="more than 1 spans"):
        read_back(tmp_path, otlp(*two()))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a mark"])
def test_whether_a_file_came_packed_is_how_it_came(mark: bytes, tmp_path: Path) -> None:
    """A byte order mark is taken off either way, and packs nothing."""
    content = otlp(*two())
    path = tmp_path / "x.json"
    for packed in (False, True):
        path.write_bytes(gzip.compress(mark + content) if packed else mark + content)
        file = load(path)
        assert (file.packed, file.content, file.size_bytes) == (packed, content, path.stat().st_size)
