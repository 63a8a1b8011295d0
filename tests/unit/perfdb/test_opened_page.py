"""How the benchmark of a trace's page judges."""

from __future__ import annotations

from benchmarks.perfdb.opened_page import judged


def test_a_page_that_opens_late_fails() -> None:
    """The first time counts by itself, then the median: one late time of several is not held against it."""
    assert judged([1900, 900, 950, 4000])[0] == 0
    code, words = judged([2100, 900, 950, 1000])
    assert code == 1 and words.endswith("FAILED") and "2100 ms the first time" in words
    assert judged([1900, 2100, 2200, 900])[0] == 1
