"""An invocation and the stages of a run as spans around its traced requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from inferbench_tasks.perfdb.documents import InvocationDocument, RunDocument
from inferbench_tasks.tracing.counters import Track, packed, tracks_in
from inferbench_tasks.tracing.forms import chrome
from inferbench_tasks.tracing.forms.otlp_json import kind_of, otlp
from inferbench_tasks.tracing.invocation import around, stage_spans, trace_id_of
from inferbench_tasks.tracing.spans import LINKS, Span, spans_of, table_of, write

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
BEGUN_NS = 1_767_225_600_000_000_000
INFO = {"name": "which"}


def at(seconds: float) -> datetime:
    """So long after the invocation began."""
    return BEGUN + timedelta(seconds=seconds)


def run(run_id: str = "i.000", **of_trace: Any) -> RunDocument:
    """A run that generates for 2 s on the leader, is traced for 5 s on another host, whose clock is 3 ms ahead, and is
    being collected."""
    stages: list[dict[str, Any]] = [
        {
            "stage": "generate", "state": "done", "started_at": at(1), "ended_at": at(3.25), "duration_s": 2.0,
            "host": "lead", "clock": {"ahead_s": -40.0, "error_s": 0.002},
        },
        {
            "stage": "trace", "state": "done", "started_at": at(4.5), "ended_at": at(9.5), "host": "far", "attempt": 2,
            "clock": {"ahead_s": 0.003, "error_s": 0.0005}, **of_trace,
        },
        {"stage": "collect", "state": "running", "started_at": at(10), "host": "lead"},
    ]  # fmt: skip
    return RunDocument.model_validate(
        {
            "run_id": run_id, "invocation_id": "i", "job_id": "j", "submission": INFO, "started_at": at(1),
            "updated_at": at(10), "stages": stages,
        }
    )  # fmt: skip


def invocation(**more: Any) -> InvocationDocument:
    """Of two runs, which goes on."""
    return InvocationDocument.model_validate(
        {"invocation_id": "i", "submission": INFO, "run_ids": ["i.000", "i.001"], "started_at": BEGUN} | more
    )


def requests() -> list[Span]:
    """Two of them, asked while the stage ran; one is linked with another already."""
    link = {"trace_id": "c" * 32, "span_id": "d" * 16}
    begun_ns = BEGUN_NS + 5_000_000_000
    return [
        Span("a" * 32, 0, -1, "application", "request", begun_ns, 900, attributes={"sample": 0}),
        Span("a" * 32, 1, 0, "model", "server", begun_ns + 100, 700),
        Span("b" * 32, 0, -1, "application", "request", begun_ns + 2_000, 900, attributes={LINKS: [link]}),
    ]


def places(spans: list[Span]) -> list[tuple[str, int, float, float]]:
    """Name, parent, seconds since the invocation began by PerfDB's clock, and how long, of each."""
    return [(s.name, s.parent, (s.start_ns - BEGUN_NS) / 1e9, s.duration_ns / 1e9) for s in spans]


def test_stages_lie_in_the_invocation_on_the_clock_of_the_requests() -> None:
    """Those that have ended, as long as they say themselves; all put on by what the asking host's clock was ahead of
    PerfDB's, whichever host they ran on, with the error of both. The invocation that goes on reaches to the end of the
    last, and one that is over to its own."""
    spans = stage_spans(run(), invocation())
    assert places(spans) == [
        ("invocation", -1, 0.003, 9.5), ("generate", 0, 1.003, 2.0), ("trace", 0, 4.503, 5.0),
    ]  # fmt: skip
    assert {span.level for span in spans} == {"application"} and {kind_of(span) for span in spans} == {1}
    whole = {"submission": "which", "state": "running", "runs": 2, "clock_ahead_ms": 3.0}
    assert whole.items() <= spans[0].attributes.items()
    assert spans[1].attributes["clock_error_ms"] == 2.5
    far = {"run": "i.000", "host": "far", "attempt": 2, "state": "done", "clock_error_ms": 0.5}
    assert far.items() <= spans[2].attributes.items()
    (over, *_) = stage_spans(run(), invocation(ended_at=at(12), status="done"))
    assert (over.duration_ns, over.attributes["state"]) == (12_000_000_000, "done")


def test_stages_of_before_clocks_were_kept_stay_where_they_were_dated() -> None:
    """By their own hosts, so that one may have ended before it began: it took no time; nothing is told of clocks."""
    spans = stage_spans(run(clock=None, ended_at=at(4)), invocation())
    assert places(spans) == [("invocation", -1, 0.0, 4.5), ("generate", 0, 1.0, 2.0), ("trace", 0, 4.5, 0.0)]
    assert not any(name.startswith("clock") for span in spans for name in span.attributes)


def test_a_stage_whose_process_was_killed_has_none() -> None:
    """When it ended nobody knows: what is kept is when that was found."""
    spans = stage_spans(run(state="failed", settled=True, ended_at=at(5_000)), invocation())
    assert [span.name for span in spans] == ["invocation", "generate"] and spans[
        0
    ].duration_ns == 3_000_000_000


def test_runs_of_one_invocation_share_its_trace() -> None:
    """Whichever is looked at, and whenever: the invocation is the same span, the stages of both are others."""
    one, two = (stage_spans(run(name), invocation()) for name in ("i.000", "i.001"))
    assert {span.trace_id for span in (*one, *two)} == {trace_id_of("i")}
    assert one[0].span_id == two[0].span_id and len({span.span_id for span in (*one, *two)}) == 5
    assert [span.span_id for span in one] == [
        span.span_id for span in stage_spans(run(), invocation(ended_at=at(20)))
    ]
    assert trace_id_of("other") != trace_id_of("i") and len(trace_id_of("i")) == 32


def test_a_run_whose_stages_go_on_has_none() -> None:
    """Its times are not known yet: nothing is made up. A stage that failed says why, by its first line."""
    going = run().model_copy(update={"stages": [run().stages[2]]})
    assert stage_spans(going, invocation()) == []
    assert around(table_of(requests()), []).num_rows == 3
    failed = stage_spans(run(state="failed", error="no room\nat all"), invocation())[2]
    assert (failed.attributes["state"], failed.attributes["error"]) == ("failed", "no room")


def test_requests_lead_to_the_stage_that_asked_them(tmp_path: Path) -> None:
    """Each by a link beside those that it has; its trace, times and other attributes stay what they were, as does what
    monitors saw. In Chrome's form they lie in the stage, and that in the invocation."""
    track = Track("server's CPU", "cores", [BEGUN_NS], [1.0])
    write(requests(), tmp_path / "spans.parquet", packed([track]))
    stages = stage_spans(run(), invocation())
    table = around(pq.ParquetFile(tmp_path / "spans.parquet").read(), stages)
    found = list(spans_of(table))
    assert found[:3] == stages and [s.trace_id for s in found[3:]] == [s.trace_id for s in requests()]
    link = {"trace_id": trace_id_of("i"), "span_id": stages[2].span_id}
    first, server, second = found[3:]
    assert first.attributes == {"sample": 0, LINKS: [link]} and server == requests()[1]
    assert second.attributes[LINKS] == [*requests()[2].attributes[LINKS], link]
    assert [each.name for each in tracks_in(table)] == ["server's CPU"]
    events = [each for each in orjson.loads(chrome.content(table, {}))["traceEvents"] if each["ph"] == "X"]
    rows = {(event["name"], event["tid"]) for event in events if event["name"] != "server"}
    assert len(events) == 6 and {row for _, row in rows} == {1}
    (resource,) = otlp(found, {})["resourceSpans"]
    told = resource["scopeSpans"][0]["spans"]
    assert told[3]["links"] == [{"traceId": link["trace_id"], "spanId": link["span_id"]}]
    assert told[2]["parentSpanId"] == told[0]["spanId"] and told[0]["parentSpanId"] == ""
