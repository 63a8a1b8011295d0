"""Chrome's trace format from files."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.forms import chrome
from inferbench_tasks.tracing.lanes import MOST, lanes_of
from inferbench_tasks.tracing.spans import LEVELS, Span, table_of
from tests.unit.tracing.foreign.files import read_back


def x(name: str, ts: float, dur: float | None, tid: int = 1, **more: Any) -> dict[str, Any]:
    """A complete event, microseconds."""
    return (
        {"ph": "X", "name": name, "pid": 7, "tid": tid, "ts": ts}
        | ({"dur": dur} if dur is not None else {})
        | more
    )


def read(tmp_path: Path, *events: dict[str, Any]) -> list[Span]:
    """The spans of a document with these events."""
    return read_back(tmp_path, orjson.dumps({"traceEvents": events}))[0]


def test_complete_events_lie_within_each_other_by_their_times(tmp_path: Path) -> None:
    """On their thread only, whatever their order; times to the nanosecond; names of threads and arguments are kept."""
    spans = read(
        tmp_path,
        x("inner", 2, 3.5, args={"shape": [1, 2]}, cat="kernel"), x("outer", 1, 10), x("elsewhere", 3, 1, tid=2),
        x("after", 11, 2), {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
        x("now", 1_700_000_000_000_123.5, 0.25, tid=3),
    )  # fmt: skip
    named = {span.name: span for span in spans}
    assert named["inner"].parent == named["outer"].number and named["outer"].parent == -1
    assert named["elsewhere"].parent == named["after"].parent == -1
    assert (named["inner"].start_ns, named["inner"].duration_ns) == (2_000, 3_500)
    assert (named["now"].start_ns, named["now"].duration_ns) == (1_700_000_000_000_123_500, 250)
    assert named["inner"].attributes["chrome"] == {"process": "7", "thread": "main", "category": "kernel"}
    assert named["inner"].attributes["shape"] == [1, 2]


def test_whole_numbers_keep_all_of_their_digits(tmp_path: Path) -> None:
    """2^70 + 1 is 1180591620717411303425 as text, not a rounded number, also in a list; two threads whose numbers
    differ in the last digit alone are two; texts of as many digits, and fractions, stay what they are.
    """
    big, near = 2**70 + 1, 2**64 + 1
    events = [
        x(
            "one",
            1,
            9,
            tid=near,
            args={"n": big, "of": [-big, 1.5], "text": f"a, {big}, b", "fits": 2**63 - 1},
        ),
        x("other", 2, 3, tid=near + 1, args={"fraction": 0.25}),
    ]
    spans, _ = read_back(tmp_path, json.dumps({"traceEvents": events}).encode())
    one, other = spans
    assert one.parent == other.parent == -1
    assert one.attributes["chrome"]["thread"] == str(near)
    told = {name: one.attributes[name] for name in ("n", "of", "text", "fits")}
    assert told == {"n": str(big), "of": [str(-big), 1.5], "text": f"a, {big}, b", "fits": 2**63 - 1}
    assert other.attributes["fraction"] == 0.25
    for digits, words in ((b"1" * 5000, "no JSON"), (str(near).encode(), "beyond what 64 bits")):
        with pytest.raises(InputError, match=words):
            read_back(tmp_path, b'{"traceEvents": [{"ph": "X", "name": "x", "ts": %s, "dur": 1}]}' % digits)


def test_pairs_of_begin_and_end(tmp_path: Path) -> None:
    """Of threads and asynchronous ids, each closing the last that is open on its line; what has no partner is told."""
    spans, findings = read_back(
        tmp_path,
        orjson.dumps(
            [
                {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 0},
                {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 1, "args": {"a": 1}},
                {"ph": "b", "name": "fetch", "cat": "net", "id": "0x1", "pid": 1, "tid": 1, "ts": 2},
                {"ph": "E", "pid": 1, "tid": 1, "ts": 3, "args": {"b": 2}},
                {"ph": "e", "name": "fetch", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 9},
                {"ph": "E", "pid": 1, "tid": 1, "ts": 5},
                {"ph": "E", "pid": 1, "tid": 1, "ts": 6},
                {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 7},
                {"ph": "C", "name": "memory", "pid": 1, "ts": 7},
                x("endless", 8, None),
            ]
        ),
    )
    assert [(s.name, s.parent, s.start_ns, s.duration_ns) for s in spans] == [
        ("outer", -1, 0, 5_000), ("inner", 0, 1_000, 2_000), ("fetch", -1, 2_000, 7_000),
    ]  # fmt: skip
    assert (spans[1].attributes["a"], spans[1].attributes["b"]) == (1, 2)
    found = {row["what"]: row["first"] for row in findings.as_rows()}
    assert found == {
        "has no end, and is left out": ["traceEvents[9]", "traceEvents[7]"],
        "ends what did not begin, and is left out": ["traceEvents[6]"],
        "counted, and left out: events of phase 'C'": ["traceEvents[8]"],
    }


def test_events_that_overlap_without_lying_within_each_other_are_told(tmp_path: Path) -> None:
    """On one thread the format has no such thing."""
    _, findings = read_back(tmp_path, orjson.dumps([x("first", 0, 100), x("second", 40, 200)]))
    assert [(row["what"], row["first"]) for row in findings.as_rows()] == [
        ("reaches beyond its parent", ["span 2, id 0000000000000002: by 140,000 ns"])
    ]


def test_a_list_without_its_end_is_what_the_format_allows(tmp_path: Path) -> None:
    """Told, and read as far as it goes; one that ends within an event is refused."""
    content = orjson.dumps([x("a", 0, 1), x("b", 2, 1)])
    for end in (b"", b",\n"):
        spans, findings = read_back(tmp_path, content[:-1] + end)
        assert [span.name for span in spans] == ["a", "b"]
        assert findings.counts == {"the list of events has no end, as the format allows": 1}
    with pytest.raises(InputError, match="line 1, column .*cut off"):
        read_back(tmp_path, content[:-5])


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (x("a", 0, 1) | {"ts": "1"}, r"traceEvents\[0\].ts is '1', no number of microseconds"),
        (x("a", 1e300, 1), "beyond what 64 bits"),
        (x("a", 9e15, 9e15), r"traceEvents\[0\] ends or lasts beyond what 64 bits"),
        (x("a", -9e15, 18e15), "beyond what 64 bits"),
        (x("a", 0, True), "dur is 'True'"),
        ({"ph": "X", "dur": 1}, r"traceEvents\[0\].ts is '', no number"),
        (x("a", 0, 1) | {"name": [[]]}, r"traceEvents\[0\].name is no text"),
        ({"ph": ["X"]}, "has no span"),
        ("X", r"traceEvents\[0\] is no mapping"),
    ],
)
def test_what_is_refused(tmp_path: Path, event: Any, words: str) -> None:
    """With the event's place; a phase that is none is counted, as one of others' is."""
    if words == "has no span":
        spans, findings = read_back(tmp_path, orjson.dumps([event]))
        assert spans == [] and findings.counts.total() == 1
        return
    with pytest.raises(InputError, match=words):
        read_back(tmp_path, orjson.dumps([event]))


def test_any_value_anywhere_is_an_error_or_a_span(tmp_path: Path) -> None:
    """Each field of events with values of every type: an error of ours or spans that are stored, nothing else."""
    odd: tuple[Any, ...] = (
        None,
        True,
        -1,
        0,
        1e300,
        "",
        "x",
        "\0",
        [],
        {},
        [[]],
        {"local": {"a": []}},
        ["b"],
    )
    read = 0
    for phase in ("X", "B", "b", "M"):
        event = x("a", 1, 2, cat="c", id=3, id2=4, args={"name": "n"}) | {"ph": phase}
        for name in event:
            for value in odd:
                with contextlib.suppress(InputError):
                    read_back(tmp_path, orjson.dumps([event | {name: value}, event, {**event, "ph": "e"}]))
                    read += 1
    assert read > 200


def test_negative_durations_are_told(tmp_path: Path) -> None:
    """As OTLP's are: kept, and counted."""
    (span,), findings = read_back(tmp_path, orjson.dumps([x("a", 5, -2)]))
    assert span.duration_ns == -2_000
    assert findings.as_rows()[0]["first"] == ["span 1, id 0000000000000001: -2,000 ns"]


def test_what_overlaps_is_exported_on_rows_of_its_own(tmp_path: Path) -> None:
    """Within a row of the export each span lies within another or beside it; as few rows as that takes here."""
    spans = [
        Span("a" * 32, number, -1, "foreign", f"op {number}", start_ns, end_ns - start_ns)
        for number, (start_ns, end_ns) in enumerate([(0, 10), (2, 8), (4, 12), (10, 20), (5, 6)])
    ]
    rows = lanes_of(spans, 4)
    assert [rows["a" * 32, number] for number in range(5)] == [4, 4, 5, 4, 4]
    events = orjson.loads(chrome.content(table_of(spans), {}))["traceEvents"]
    events = [event for event in events if event["ph"] == "X"]
    first = 1 + len(LEVELS)
    assert [event["tid"] - first for event in events] == [0, 0, 1, 0, 0]
    stairs = [Span("a" * 32, at, -1, "foreign", "x", at, 10_000) for at in range(MOST + 50)]
    assert max(lanes_of(stairs, 0).values()) == MOST - 1
