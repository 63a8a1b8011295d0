"""Which requests of a trace were asked with which instruments: each level is told by those without deeper ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from inferbench_tasks.tracing.columns import attribute_of_requests
from inferbench_tasks.tracing.spans import HARDWARE, INSTRUMENTED, Span


@dataclass(frozen=True)
class OneLevel:
    """Rows of requests that were asked alike. ``instrumented``: the deepest level whose instruments were on, ""
    where all requests of the trace are in it; ``others``: so many spans are of requests with other instruments."""

    table: pa.Table
    instrumented: str
    others: int


def asks_for_library(levels: Collection[str]) -> bool:
    """Whether these levels take the requests with the instruments of the library level, which tell of a GPU, too."""
    return "library" in levels or HARDWARE in levels


def one_level(table: pa.Table, library: bool, trace: str = "") -> OneLevel:
    """Of a stored trace the requests with the instruments of the library level, or those without.

    What costs more takes longer: times of both are never added up. A trace whose requests are all alike is all there.
    ``trace``: this request alone, with whichever instruments it was asked.
    """
    levels = attribute_of_requests(table, INSTRUMENTED)
    if trace:
        own = table.filter(pc.equal(table["trace_id"].cast(pa.string()), trace))
        return OneLevel(own, levels.get(trace, "") if len(set(levels.values())) > 1 else "", 0)
    deep = [trace for trace, level in levels.items() if level == "library"]
    if not deep or len(deep) == len(levels):
        return OneLevel(table, "", 0)
    inside = pc.is_in(table["trace_id"].cast(pa.string()), value_set=pa.array(deep))
    kept = table.filter(inside if library else pc.invert(inside))
    left = {level for trace, level in levels.items() if (level == "library") == library}
    return OneLevel(kept, "library" if library else min(left), table.num_rows - kept.num_rows)


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
