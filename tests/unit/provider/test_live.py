"""A run while it runs, from the events of its stages."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.loadgen.live import Snapshot, Told, told
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.provider.ui import live as live_page
from inferbench_tasks.provider.ui.live import HEIGHT, TAIL_BYTES, WIDTH, of_events, read
from inferbench_tasks.provider.ui.render import fragment


def progress(
    at_s: float, done: float, text: str, stage: str = "load", total: float | None = 20.0
) -> dict[str, Any]:
    return {
        "t": at_s,
        "event": "progress",
        "stage": stage,
        "job": 0,
        "done": done,
        "total": total,
        "text": text,
    }


def line(rate: float, p99_ms: float | None) -> str:
    return "measuring: " + Snapshot(1000, 0, rate, None if p99_ms is None else p99_ms / 2, p99_ms, 3).text()


@pytest.mark.parametrize(("rate", "p99_ms"), [(98.0, 12.34), (12_345.0, 0.5), (0.0, None)])
def test_the_words_of_a_load_are_read_as_they_were_said(rate: float, p99_ms: float | None) -> None:
    """Also thousands, and a load without a good answer yet; other words say nothing."""
    assert told(line(rate, p99_ms)) == Told(rate, None if p99_ms is None else round(p99_ms / 2, 2), p99_ms)
    assert told("converting") is None


def test_a_load_has_its_time_left_and_a_point_a_second() -> None:
    """Two of the same second are the later one; from 0 to the greatest value, the first point at the left end."""
    now = float(int(time.time()))
    events = [progress(now - 4 + at, 2 * at, line(100 * at, 10 * at)) for at in (1, 2, 2.5, 4)]
    live = of_events([{"t": now - 9, "event": "start", "stage": "load", "job": 0}, *events])
    assert live is not None and live.stage == "load" and live.percent == 40
    assert live.left_s == pytest.approx(12, abs=2)
    rate, p50, p99 = live.curves
    assert (rate.newest, rate.greatest, rate.unit, p50.newest, p99.newest) == (400, 400, "1/s", 20, 40)
    points = [tuple(map(float, point.split(","))) for point in rate.points.split()]
    assert points == [
        (0, HEIGHT * 0.75),
        (pytest.approx(WIDTH / 3, abs=0.1), pytest.approx(HEIGHT * 0.375, abs=0.1)),
        (WIDTH, 0),
    ]


def test_a_stage_that_ended_is_not_what_runs() -> None:
    """Nor is one without words of a rate told to end in so many seconds: its count may be of anything."""
    events = [
        progress(1, 5, "fetching", "generate", 10),
        {"t": 2, "event": "end", "stage": "generate", "job": 0},
    ]
    assert of_events(events) is None
    live = of_events([*events, progress(3, 1, "converting to fp16", "convert", 3)])
    assert live is not None and (live.stage, live.left_s, live.curves) == ("convert", None, ())
    assert live.percent == pytest.approx(100 / 3)
    unknown = of_events([progress(3, 0, "checking", "load", None)])
    assert unknown is not None and unknown.percent is None


def test_figures_of_an_attempt_that_was_lost_are_not_those_of_the_next() -> None:
    """400 requests/s of a load whose worker was killed, which nobody ended: while the job is made again nothing is said
    until its own stages say it, and then their own 100/s alone.
    """
    now = time.time()
    lost = [progress(now - 60, 10, line(400, 9)), progress(now - 59, 11, line(400, 9))]
    again = [*lost, {"t": now - 9, "event": "start", "stage": "generate", "job": 0}]
    assert of_events(again) is None
    end = {"t": now - 8, "event": "end", "stage": "generate", "job": 0}
    start = {"t": now - 7, "event": "start", "stage": "load", "job": 0}
    assert of_events([*again, end, start]) is None
    live = of_events([*again, end, start, progress(now, 1, line(100, 4))])
    assert live is not None and [curve.greatest for curve in live.curves] == [100, 2, 4]
    assert live.curves[0].seconds == 0


def test_of_a_long_file_the_end_is_read_and_a_line_in_the_making_is_left_out(tmp_path: Path) -> None:
    """The first of the lines that are read is cut off, and so may the last one be."""
    path = tmp_path / "events.jsonl"
    written = [json.dumps(progress(number, number, "x" * 100)) for number in range(5000)]
    path.write_text("\n".join(written) + "\n" + written[0][:50])
    events = read(path)
    assert 100 < len(events) < TAIL_BYTES / 100 and events[-1]["done"] == 4999
    assert [event["done"] for event in events] == list(range(5000 - len(events), 5000))
    assert read(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"done": "many"}, {"done": None}, {"done": -1}, {"done": 1e300}, {"total": "all"}, {"total": [1]},
        {"text": None}, {"stage": ["load"]}, {"t": {}}, {"t": True, "done": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_progress_breaks_no_page(wrong: dict[str, Any]) -> None:
    """A stranger's model is run by what tells these lines: one that is none is as if it were not there."""
    good = progress(time.time(), 5, line(100, 4))
    live = of_events([good, good | wrong])
    assert live is not None and live.done == 5
    assert of_events([good | wrong]) is None


def test_words_without_end_are_cut_and_give_no_figures() -> None:
    """Digits without end too."""
    live = of_events([progress(time.time(), 5, "9" * 100_000 + " requests/s, 0 in flight, 0 errors")])
    assert live is not None and len(live.text) == 300 and live.curves == ()
    assert told("measuring: " + "9" * 40 + " requests/s, 1 in flight, 0 errors") is None


@pytest.mark.parametrize(("p50_ms", "late_ms", "most", "state"), [(2, 12, 10, "bad"), (100, 12, 25, "good")])
def test_how_late_requests_may_leave_is_the_certificate_s_to_say(
    p50_ms: float, late_ms: float, most: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 ms, or 25% of the median of 100 ms; where the certificate allows 200 ms, so does the page."""
    words = "measuring: " + Snapshot(1000, 0, 100, p50_ms, 2 * p50_ms, 3, late_p99_ms=late_ms).text()
    live = of_events([progress(time.time(), 5, words)])

    def shown() -> str:
        return fragment("live_now.html", live=live, live_size=(WIDTH, HEIGHT), stages=[])

    assert (
        f'class="{state}">1% of the requests left more than 12 ms late</span> (at most {most} ms,' in shown()
    )
    monkeypatch.setattr(live_page, "Thresholds", lambda: Thresholds(lateness_p99_ms=200))
    assert 'class="good">1% of the requests left more than 12 ms late</span> (at most 200 ms,' in shown()
