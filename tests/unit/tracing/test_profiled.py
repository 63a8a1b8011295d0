"""Requests with the instruments of one level, of a stored trace."""

from __future__ import annotations

from inferbench_tasks.tracing.columns import columns_of
from inferbench_tasks.tracing.flame import flame_graph
from inferbench_tasks.tracing.profiled import asks_for_library, one_level
from inferbench_tasks.tracing.spans import INSTRUMENTED, Span, table_of
from inferbench_tasks.tracing.timeline import timeline

LAYER, LIBRARY = {INSTRUMENTED: "layer"}, {INSTRUMENTED: "library"}
#: The same request without the instruments of the library level, 1,000 ns, and with them, 3,000.
SPANS = [
    Span("a" * 32, 0, -1, "application", "request", 0, 1_000, attributes=LAYER),
    Span("a" * 32, 1, 0, "layer", "conv", 0, 700, "Conv"),
    Span("b" * 32, 0, -1, "application", "request", 5_000, 3_000, attributes=LIBRARY),
    Span("b" * 32, 1, 0, "layer", "conv", 5_000, 2_500, "Conv"),
    Span("b" * 32, 2, 1, "library", "jit", 5_000, 2_000, "convolution"),
]


def test_requests_of_two_levels_are_never_added_up() -> None:
    """1,000 ns or 3,000, not 4,000; which they are is told, and how many spans are of the others."""
    plain, deep = (one_level(table_of(SPANS), library) for library in (False, True))
    assert (plain.instrumented, plain.others, deep.instrumented, deep.others) == ("layer", 3, "library", 2)
    frames = [flame_graph(columns_of(each.table))["frames"] for each in (plain, deep)]
    assert [[frame["total_ns"] for frame in each] for each in frames] == [[1_000, 700], [3_000, 2_500, 2_000]]
    assert timeline(columns_of(plain.table))["requests"] == ["a" * 32]
    assert timeline(columns_of(deep.table))["requests"] == ["b" * 32]


def test_one_request_is_there_whatever_its_instruments() -> None:
    """Asked for by its trace it is never empty: with the library level's instruments or without."""
    for library in (False, True):
        for trace, spans, level in (("a" * 32, 2, "layer"), ("b" * 32, 3, "library")):
            found = one_level(table_of(SPANS), library, trace)
            assert (found.table.num_rows, found.instrumented, found.others) == (spans, level, 0)
    assert one_level(table_of(SPANS), False, "c" * 32).table.num_rows == 0


def test_requests_that_are_all_alike_are_all_there() -> None:
    """A trace without that level, one of nothing else, and none."""
    for spans in (SPANS[:2], SPANS[2:], []):
        for library in (False, True):
            found = one_level(table_of(spans), library)
            assert (found.table.num_rows, found.instrumented, found.others) == (len(spans), "", 0)


def test_what_a_gpu_did_is_of_the_requests_with_the_library_s_instruments() -> None:
    """Whoever wants to see it gets these, as whoever wants to see calls does."""
    assert asks_for_library(["hardware"]) and asks_for_library(["layer", "library"])
    assert not asks_for_library(["layer"]) and not asks_for_library([])
