"""The invocation that a traced run is of and the stages of that run, as spans: a trace of their own, to which each
request leads.

Put together when a trace is read, from what PerfDB has of the run: nothing of it is stored twice. A request keeps the
trace that its server was told of, so that its tie to the stage that asked it is a link and not a parent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from inferbench_tasks.perfdb.documents import HostClock, InvocationDocument, RunDocument, StageRecord
from inferbench_tasks.tracing.spans import LINKS, SCHEMA, Span, attributes_of, id_of, table_of

INVOCATION = "invocation"
#: The stage that asks the traced requests.
_ASKS = "trace"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def trace_id_of(invocation_id: str) -> str:
    """The trace of an invocation: one for all its runs, whenever it is asked for."""
    return hashlib.sha256(f"inferbench invocation\n{invocation_id}".encode()).hexdigest()[:32]


def stage_spans(run: RunDocument, invocation: InvocationDocument) -> list[Span]:
    """The invocation, and within it the stages of this run in the order of their starts; empty of a run none of whose
    stages has ended.

    Requests lie on the clock of the host that asked them, beginnings of stages on PerfDB's. All of these are put on the
    former, by how far it was ahead as the stage began that asked: ``clock_ahead_ms`` of the invocation; a stage's
    ``clock_error_ms`` is how far its beginning may be off, unless a clock was set or drifted since. Where that is not
    known, of runs from before it was kept, stages are where they were dated, and nothing is told of clocks. Lengths are
    by CLOCK_MONOTONIC where the stage told one. Of a stage that goes on, or whose process was killed, there is no span;
    an invocation that goes on has its end so far.
    """
    ended = [(record, ns) for record in run.stages if (ns := _length_ns(record)) is not None]
    if not ended:
        return []
    clock = next((record.clock for record, _ in reversed(ended) if record.stage == _ASKS), None)
    ahead_ns = 0 if clock is None else round(clock.ahead_s * 1e9)
    trace_id = trace_id_of(run.invocation_id)
    stages = []
    for number, (record, length_ns) in enumerate(ended, 1):
        named = f"{run.run_id}\n{record.stage}\n{record.attempt}"
        told = {"run": run.run_id, **_told(record), **_error(record, clock)}
        stages.append(
            _span(trace_id, number, record.stage, _ns(record.started_at) + ahead_ns, length_ns, told, named)
        )
    start_ns = min(_ns(invocation.started_at) + ahead_ns, *(span.start_ns for span in stages))
    ends_ns = [span.end_ns for span in stages]
    if invocation.ended_at is not None:
        ends_ns.append(_ns(invocation.ended_at) + ahead_ns)
    about = {
        "invocation": run.invocation_id,
        "submission": invocation.submission.name,
        "state": invocation.status,
        "runs": len(invocation.run_ids),
        **({} if clock is None else {"clock_ahead_ms": clock.ahead_s * 1e3}),
    }
    whole = _span(trace_id, 0, INVOCATION, start_ns, max(ends_ns) - start_ns, about, run.invocation_id)
    return [whole, *stages]


def around(table: pa.Table, stages: Sequence[Span]) -> pa.Table:
    """A run's stored spans behind those of its invocation; each request is linked with the stage that asked it."""
    if not stages:
        return table
    asking = next((span for span in reversed(stages) if span.name == _ASKS), None)
    if asking is not None:
        table = _linked(table, {"trace_id": asking.trace_id, "span_id": asking.span_id})
    # What monitors saw is in the metadata of the table, and of several tables the first one's is kept.
    first = table_of(stages).replace_schema_metadata(table.schema.metadata)
    return pa.concat_tables([first, table])


def _linked(table: pa.Table, link: Mapping[str, str]) -> pa.Table:
    """Each request with this link."""
    own = pc.and_(
        pc.less(table["parent"], 0), pc.equal(table["level"].cast(pa.string()), "application")
    ).to_numpy()
    texts = attributes_of(table)
    for row in np.flatnonzero(own).tolist():
        told = orjson.loads(texts[row] or "{}")
        told[LINKS] = [*told.get(LINKS, ()), dict(link)]
        texts[row] = orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()
    field = SCHEMA.field("attributes")
    column = pa.chunked_array([pa.array(texts, pa.string()).dictionary_encode()], field.type)
    return table.set_column(table.column_names.index("attributes"), field, column)


def _told(record: StageRecord) -> dict[str, Any]:
    """What a stage says of itself; of one that failed why."""
    known = {"host": record.host, "error": record.error.splitlines()[0] if record.error else None}
    return {
        "attempt": record.attempt,
        "state": record.state,
        **{name: value for name, value in known.items() if value is not None},
    }


def _error(record: StageRecord, clock: HostClock | None) -> dict[str, float]:
    """How far the stage's beginning may lie from where it was on the clock that it is put on."""
    if clock is None or record.clock is None:
        return {}
    of_both_s = clock.error_s + (0.0 if record.clock is clock else record.clock.error_s)
    return {"clock_error_ms": of_both_s * 1e3}


def _length_ns(record: StageRecord) -> int | None:
    """None of a stage whose end nobody saw."""
    if record.ended_at is None or record.settled:
        return None
    if record.duration_s is not None:
        return round(record.duration_s * 1e9)
    return max(0, _ns(record.ended_at) - _ns(record.started_at))


def _span(
    trace_id: str, number: int, name: str, start_ns: int, length_ns: int, about: dict[str, Any], named: str
) -> Span:
    """``named``: what it is, whichever other runs of the invocation are looked at: its id is made of that."""
    own = {**about, "span_id": id_of(trace_id, named)}
    parent = -1 if number == 0 else 0
    return Span(trace_id, number, parent, "application", name, start_ns, length_ns, attributes=own)


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // _US * 1_000
