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

from inferbench_tasks.perfdb.documents import InvocationDocument, RunDocument, StageRecord
from inferbench_tasks.tracing.spans import LINKS, SCHEMA, Span, attributes_of, id_of, table_of

INVOCATION = "invocation"
#: The stage that asks the traced requests.
_ASKS = "trace"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def trace_id_of(invocation_id: str) -> str:
    """The trace of an invocation: one for all its runs, whenever it is asked for."""
    return hashlib.sha256(f"inferbench invocation\n{invocation_id}".encode()).hexdigest()[:32]


def stage_spans(
    run: RunDocument, invocation: InvocationDocument, clocks: Mapping[str, Mapping[str, float]]
) -> list[Span]:
    """The invocation, and within it the stages of this run in the order of their starts; empty of a run none of whose
    stages has ended.

    Times are those that PerfDB has: whole milliseconds by the clock of the host that ran the stage. ``clocks``: what a
    host's name says of its clock, where that is known, and is the stage's attributes. Of a stage that goes on, or was
    killed, there is no span; an invocation that goes on has its end so far.
    """
    ended = [(record, record.ended_at) for record in run.stages if record.ended_at is not None]
    if not ended:
        return []
    trace_id = trace_id_of(run.invocation_id)
    start = min(invocation.started_at, *(record.started_at for record, _ in ended))
    end = max(end for _, end in ended)
    end = max(end, invocation.ended_at or end)
    about = {
        "invocation": run.invocation_id,
        "submission": invocation.submission.name,
        "state": invocation.status,
        "runs": len(invocation.run_ids),
    }
    spans = [_span(trace_id, 0, INVOCATION, start, end, about, run.invocation_id)]
    for number, (record, at) in enumerate(ended, 1):
        named = f"{run.run_id}\n{record.stage}\n{record.attempt}"
        told = {"run": run.run_id, **_told(record), **clocks.get(record.host or "", {})}
        spans.append(_span(trace_id, number, record.stage, record.started_at, at, told, named))
    return spans


def around(table: pa.Table, stages: Sequence[Span]) -> pa.Table:
    """A run's stored spans behind those of its invocation; each request is linked with the stage that asked it."""
    if not stages:
        return table
    asking = next((span for span in reversed(stages) if span.name == _ASKS), None)
    if asking is not None:
        table = _linked(table, {"trace_id": asking.trace_id, "span_id": asking.span_id})
    # What monitors saw is kept in the schema, which is that of the first.
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


def _span(
    trace_id: str, number: int, name: str, start: datetime, end: datetime, about: dict[str, Any], named: str
) -> Span:
    """``named``: what it is, whichever other runs of the invocation are looked at: its id is made of that."""
    start_ns, end_ns = _ns(start), _ns(end)
    own = {**about, "span_id": id_of(trace_id, named)}
    parent = -1 if number == 0 else 0
    return Span(trace_id, number, parent, "application", name, start_ns, end_ns - start_ns, attributes=own)


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // _MS * 1_000_000
