"""What is told of a load while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.loadgen.live import Live, Snapshot
from inferbench_tasks.loadgen.spool import Recorder

SECOND = 1_000_000_000


def answered(recorder: Recorder, at_s: float, latency_ms: float, count: int, *, late_ms: float = 0.0) -> None:
    """So many good answers, that all come then."""
    done = int(at_s * SECOND)
    intended = done - int(latency_ms * 1e6)
    for number in range(count):
        recorder.append(number, 1, intended, intended + int(late_ms * 1e6), done, done, 0, 1, 1, 0, 1)
    recorder.flush()


def test_requests_that_are_to_wait_are_not_late(tmp_path: Path) -> None:
    """Of a load whose requests are all there from the start one leaves after 8 s: it waited for its turn, as it was to.
    The same of one with a schedule is 8 s late."""
    with Recorder(tmp_path / "0.spool") as recorder:
        answered(recorder, 9, 9000, 200, late_ms=8000)
        waits = Live([recorder.path], late=False).update(9 * SECOND)
        assert waits.late_p99_ms is None and "late" not in waits.text() and waits.p50_ms is not None
        late = Live([recorder.path]).update(9 * SECOND)
        assert late.late_p99_ms == pytest.approx(8000, rel=0.023)


def test_latencies_are_those_of_the_last_seconds(tmp_path: Path) -> None:
    """A slow beginning is forgotten after five seconds, where a hundred answers came since; how late requests left is
    of the whole load.
    """
    with Recorder(tmp_path / "0.spool") as recorder:
        live = Live([recorder.path])
        answered(recorder, 1, 100, 200, late_ms=8)
        first = live.update(1 * SECOND)
        assert first.p99_ms == pytest.approx(100, rel=0.023) and first.late_p99_ms == pytest.approx(
            8, rel=0.023
        )
        answered(recorder, 3, 5, 150)
        assert live.update(3 * SECOND).p99_ms == pytest.approx(100, rel=0.023)
        later = live.update(int(6.5 * SECOND))
        assert later.p50_ms == pytest.approx(5, rel=0.023) == later.p99_ms
        assert later.late_p99_ms == pytest.approx(8, rel=0.023) and later.done == 350
        assert later.seconds == pytest.approx(3.5)


def test_a_p99_of_few_answers_is_none_and_a_slow_load_looks_further_back(tmp_path: Path) -> None:
    """Of 60 answers there is a median alone; with 120 in 20 s the window is as long as a hundred need."""
    with Recorder(tmp_path / "0.spool") as recorder:
        live = Live([recorder.path])
        answered(recorder, 1, 4, 60)
        first = live.update(1 * SECOND)
        assert (
            first.p50_ms == pytest.approx(4, rel=0.023) and first.p99_ms is None and first.late_p99_ms is None
        )
        answered(recorder, 20, 4, 60)
        later = live.update(20 * SECOND)
        assert later.p99_ms == pytest.approx(4, rel=0.023) and later.seconds == pytest.approx(19)
        assert "p99 " in later.text() and "in the last 19 s, sent late by 0.00 ms (p99)" in later.text()


def test_words_say_no_more_than_is_known() -> None:
    """Neither a latency without an answer, nor a p99 without a hundred."""
    assert Snapshot(0, 2, 0.0, None, None).text() == "0 requests/s, 0 in flight, 2 errors"
    assert Snapshot(9, 0, 9.0, 3.0, None).text() == "9 requests/s, 0 in flight, 0 errors, p50 3.00 ms"
