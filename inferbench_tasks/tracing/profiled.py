"""Which requests of a trace were asked with which instruments: each level is told by those without deeper ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from inferbench_tasks.tracing.spans import INSTRUMENTED, Span


@dataclass(frozen=True)
class OneLevel:
    """Rows of requests that were asked alike. ``instrumented``: the deepest level whose instruments were on, ""
    where all requests of the trace are in it; ``others``: so many spans are of requests with other instruments."""

    table: pa.Table
    instrumented: str
    others: int


def one_level(table: pa.Table, library: bool) -> OneLevel:
    """Of a stored trace the requests with the instruments of the library level, or those without.

    What costs more takes longer: times of both are never added up. A trace whose requests are all alike is all there.
    """
    roots = table.filter(pc.less(table["parent"], 0))
    of = zip(roots["trace_id"].cast(pa.string()).to_pylist(), _told(roots["attributes"]), strict=True)
    levels = dict(of)
    deep = [trace for trace, level in levels.items() if level == "library"]
    if not deep or len(deep) == len(levels):
        return OneLevel(table, "", 0)
    inside = pc.is_in(table["trace_id"].cast(pa.string()), value_set=pa.array(deep))
    kept = table.filter(inside if library else pc.invert(inside))
    left = {level for trace, level in levels.items() if (level == "library") == library}
    return OneLevel(kept, "library" if library else min(left), table.num_rows - kept.num_rows)


def _told(attributes: pa.ChunkedArray) -> list[str]:
    """The level that each request says; "" of one that says none."""
    texts = attributes.cast(pa.string()).to_pylist()
    return [str(json.loads(text).get(INSTRUMENTED, "")) if text else "" for text in texts]


def without_deeper(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans of the requests that were asked without the instruments of the library level."""
    return (span for span, library in _marked(spans) if not library)


def with_library(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans of the requests that were asked with the instruments of the library level."""
    return (span for span, library in _marked(spans) if library)


def _marked(spans: Iterable[Span]) -> Iterator[tuple[Span, bool]]:
    """Each span, and whether its request says so; a request comes before what is within it."""
    marked: dict[str, bool] = {}
    for span in spans:
        if span.parent < 0:
            marked[span.trace_id] = span.attributes.get(INSTRUMENTED) == "library"
        yield span, marked.get(span.trace_id, False)
