"""The want of memory of epochs whose counters are known."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.monitors.records import EMPTY, Recording, Series
from inferbench_tasks.training.memory_figures import of_epochs
from inferbench_tasks.training.order import MemoryGrown
from tests.unit.training.epochs import answer

GROWN = MemoryGrown(
    major_faults=30, stalled_s=0.06, scope="machine", swapped_in_bytes=1000, swapped_out_bytes=0
)


def test_counters_become_figures_of_a_step() -> None:
    """30 faults in 10 steps of each of two ranks are 6 a step; stalls count once, for all read the same counter. The
    limit is the ranks' own, the least of them, wherever the figures are worked out.
    """
    answers = [answer(0), answer(1)]
    answers[0].memory_limit_bytes, answers[1].memory_limit_bytes = 900, 800
    for of in answers:
        for epoch in of.epochs:
            epoch.memory = GROWN
    steps = [sum(row[1] == 1 for row in e.rows) for e in answers[0].epochs if e.kind == "synchronised"]
    length_s = sum(
        ((e.window_end_ns or 0) - (e.window_start_ns or 0)) / 1e9
        for e in answers[0].epochs
        if e.kind == "synchronised"
    )
    at = np.array([100_000_000, 150_000_000], dtype=np.int64)
    recording = Recording(
        {
            ("host", "memory_available_bytes"): Series(at, np.array([50.0, 40.0])),
            ("server", "rss_bytes"): Series(at, np.array([7.0, 9.0])),
        },
        {},
    )
    figures = of_epochs(answers, recording)
    assert figures is not None
    assert figures["major_faults"] == pytest.approx(2 * 30 * len(steps) / sum(steps))
    assert figures["swapped_in_bytes"] == pytest.approx(1000 * len(steps) / sum(steps))
    assert figures["stalled_ratio"] == pytest.approx(0.06 * len(steps) / length_s)
    assert (figures["least_available_bytes"], figures["most_resident_bytes"]) == (40.0, 9.0)
    assert (figures["scope"], figures["limit_bytes"]) == ("machine", 800)


def test_a_run_without_counters_has_no_figures() -> None:
    """None, and no zeros."""
    assert of_epochs([answer(0)], EMPTY) is None
