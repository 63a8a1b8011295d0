"""Spans for other tools."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.export import write
from inferbench_tasks.tracing.spans import Span, id_of, spans_of, table_of

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


def test_perfetto_s_form(tmp_path: Path) -> None:
    """Times in microseconds from the first span, a row a level, attributes as arguments."""
    assert write(table_of(SPANS), tmp_path / "x.json", {"inferbench.run": "r"}) == 3
    document = orjson.loads((tmp_path / "x.json").read_bytes())
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events] == [
        ("request", 0, 0.0, 9.0), ("server", 1, 1.0, 5.0), ("conv", 3, 2.5, 1.5),
    ]  # fmt: skip
    assert events[2]["cat"] == "Conv" and events[2]["args"]["shape"] == [1, 2]
    assert document["otherData"] == {"inferbench.run": "r"}


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


def test_parquet_as_stored(tmp_path: Path) -> None:
    """The table itself, to be read by anybody."""
    write(table_of(SPANS), tmp_path / "x.parquet", {})
    assert list(spans_of(pq.read_table(tmp_path / "x.parquet"))) == SPANS


def test_another_ending_is_refused(tmp_path: Path) -> None:
    """The endings that there are stand in the error, and nothing is written."""
    with pytest.raises(InputError, match=r"known: \.json .*\.otlp\.json .*\.parquet"):
        write(table_of(SPANS), tmp_path / "x.txt", {})
    assert list(tmp_path.iterdir()) == []
