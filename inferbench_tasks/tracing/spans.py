"""Spans of requests: who did what, when, within what; and the table that they are stored as."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from inferbench_tasks.servers.sources.gpu_work import ALONE_NS
from inferbench_tasks.servers.sources.gpu_work import GPU_NS as GPU_NS
from inferbench_tasks.servers.sources.gpu_work import HARDWARE as HARDWARE

#: From the user's request downwards.
Level = Literal["application", "model", "framework", "layer", "library"]
LEVELS: tuple[Level, ...] = get_args(Level)
#: The deepest level unless more is asked for: below it are many spans, and instruments that cost more.
USUAL_DEEPEST: Level = "layer"
#: The attribute of a request that says which level was the deepest whose instruments were on while it was asked; there
#: only in traces with requests of several: layers' times are of those without instruments below them.
INSTRUMENTED = "instrumented"
#: The attribute of a request that says which part of its load it is, there only where a trace has several: of a
#: training warm-up steps and the last, smaller ones are traced as well. What is added up is of one part.
PART = "part"
Part = Literal["measured", "warmup", "last"]
MEASURED: Part = "measured"
#: The attribute of a request that is one of a share of its load: one in so many was chosen, by chance.
ONE_IN = "one_in"
#: The attribute with the entries of a span's ``tracestate``.
STATE = "tracestate"
#: The attribute of a span that is of several requests: those of the others of them that were traced, as OTLP's links.
LINKS = "links"
#: The attribute of a request that another host's client told of: what that lies on the clock of its server's host with
#: may be wrong by so much, ns.
CLOCK_ERROR = "clock_error_ns"
#: The attribute of a rank's step, within that of all ranks of a training.
RANK = "rank"
#: ``hardware``: of what a GPU did, which what tells of calls (``library``) tells of, too. ``foreign``: of a span that
#: another tool told of, whose levels are not ours.
AnyLevel = Level | Literal["hardware", "foreign"]
#: In the order in which they are shown.
SPAN_LEVELS: tuple[AnyLevel, ...] = (*LEVELS, HARDWARE, "foreign")

_AT_ONCE = 50_000
#: Numbers in attributes differ from request to request; what is around them is found again only if it is looked for.
_ZSTD_LEVEL = 12
_NAMES = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("trace_id", _NAMES, nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("parent", pa.int32(), nullable=False),
        pa.field("level", _NAMES, nullable=False),
        pa.field("name", _NAMES, nullable=False),
        pa.field("type", _NAMES, nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("duration_ns", pa.int64(), nullable=False),
        pa.field("attributes", _NAMES),
    ]
)


@dataclass(frozen=True)
class Span:
    """``number``: its place within its trace, from 0; ``parent``: that of the span it lies in, -1 of a request itself.

    ``start_ns``: Unix time. ``type``: of a layer its operator. ``attributes``: plain values.
    """

    trace_id: str
    number: int
    parent: int
    level: AnyLevel
    name: str
    start_ns: int
    duration_ns: int
    type: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        """When it was over."""
        return self.start_ns + self.duration_ns

    @property
    def work_ns(self) -> int:
        """What a layer takes of its run: on a GPU the time of what it asked for there, which runs beside the span, for
        the CPU asks for the next layer meanwhile, and of what ran on the CPU beside a GPU the time in which that did
        nothing for any layer; else the span's."""
        known = [self.attributes[name] for name in (GPU_NS, ALONE_NS) if name in self.attributes]
        return int(sum(known)) if known else self.duration_ns

    @property
    def span_id(self) -> str:
        """16 hex digits; of what asks a server the one in its ``traceparent``, see ``attributes.span_id``."""
        return str(self.attributes.get("span_id") or id_of(self.trace_id, self.number))


def id_of(trace_id: str, named: int | str) -> str:
    """The id of a trace's span, by its number or another name of it; the same whenever it is asked for."""
    return hashlib.sha256(f"{trace_id}\n{named}".encode()).hexdigest()[:16]


def table_of(spans: Iterable[Span]) -> pa.Table:
    """A row for each span, in the order given; of a million of them never more than a part is held as objects."""
    left = iter(spans)
    parts = [_rows(part) for part in iter(lambda: list(islice(left, _AT_ONCE)), [])]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def _rows(spans: Sequence[Span]) -> pa.Table:
    rows = [
        {
            "trace_id": span.trace_id,
            "number": span.number,
            "parent": span.parent,
            "level": span.level,
            "name": span.name,
            "type": span.type,
            "start_ns": span.start_ns,
            "duration_ns": span.duration_ns,
            "attributes": json.dumps(span.attributes, sort_keys=True) if span.attributes else None,
        }
        for span in spans
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write(spans: Iterable[Span], path: Path, metadata: Mapping[bytes, bytes] | None = None) -> None:
    """The spans as one small Parquet file. ``metadata``: of the file, what is kept beside them."""
    write_table(table_of(spans), path, metadata)


def write_table(
    table: pa.Table, to: Path | pa.NativeFile, metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """The same of a table of spans; of its own metadata nothing is kept."""
    with pq.ParquetWriter(
        to,
        SCHEMA,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        use_dictionary=[f.name for f in SCHEMA if pa.types.is_dictionary(f.type)],
        column_encoding={f.name: "DELTA_BINARY_PACKED" for f in SCHEMA if not pa.types.is_dictionary(f.type)},
        write_statistics=False,  # nobody asks for a part of a file, and of attributes these are whole texts
    ) as file:
        file.write_table(table)
        if metadata:  # of the file: what the schema that is written has of it would be there twice
            file.add_key_value_metadata(dict(metadata))


def spans_of(table: pa.Table) -> Iterator[Span]:
    """The spans of a stored table."""
    # A column at a time: Arrow makes a row of dictionary-coded columns a hundred times slower.
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        columns = [_values(batch.column(field.name)) for field in SCHEMA]
        known: dict[str | None, dict[str, Any]] = {None: {}}
        for trace_id, number, parent, level, name, type_, start_ns, duration_ns, attributes in zip(
            *columns, strict=True
        ):
            # A layer says the same in each request: it is read once, and each span has a mapping of its own.
            if (told := known.get(attributes)) is None:
                told = known[attributes] = json.loads(attributes) if attributes else {}
            yield Span(trace_id, number, parent, level, name, start_ns, duration_ns, type_, told.copy())


def attributes_of(table: pa.Table) -> list[str | None]:
    """The attributes of a stored table's spans as they are stored: JSON, None of one without."""
    return [text for batch in table.to_batches() for text in _values(batch.column("attributes"))]


def _values(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return list(column.to_numpy(zero_copy_only=False).tolist())
    words = [*column.dictionary.to_pylist(), None]  # the last one of what is null
    places = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
    return [words[at] for at in places.tolist()]
