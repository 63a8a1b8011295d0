"""How the benchmark of a trace's page judges."""

from __future__ import annotations

import pytest

from benchmarks.perfdb.opened import REQUESTS, SPANS
from benchmarks.perfdb.opened_page import NotOpened, judged, stood


def test_a_page_that_opens_late_fails() -> None:
    """The first time counts by itself, then the median: one late time of several is not held against it."""
    assert judged([1900, 900, 950, 4000])[0] == 0
    code, words = judged([2100, 900, 950, 1000])
    assert code == 1 and words.endswith("FAILED") and "2100 ms the first time" in words
    assert judged([1900, 2100, 2200, 900])[0] == 1


def test_a_page_without_the_whole_trace_has_not_opened() -> None:
    """However soon it stands, it fails the gate in words."""
    whole = f"{SPANS:,} spans of {REQUESTS} requests"
    assert stood(1200.0, SPANS, whole) == 1200.0
    for told, words in (
        ((None, 0, "drawing"), "did not open within 60 s: drawing"),
        ((900.0, SPANS - 1, whole), f"has {SPANS - 1:,} of {SPANS:,} spans"),
        ((900.0, SPANS, "3 spans of 1 request"), "the flame graph says '3 spans of 1 request'"),
    ):
        with pytest.raises(NotOpened, match=words):
            stood(*told)
