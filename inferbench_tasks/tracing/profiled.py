"""Which requests of a trace were asked with which instruments: each level is told by those without deeper ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inferbench_tasks.tracing.spans import INSTRUMENTED, Span


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
