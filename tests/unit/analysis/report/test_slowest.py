"""Single requests of a run."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.analysis.report import slowest
from inferbench_tasks.loadgen.window import Window
from tests.unit.analysis.builders import records, view


def test_the_slowest_are_all_drawn_with_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are drawn at most, evenly chosen others, the table in the order of latency; the parts of a request add
    up to its latency.
    """
    monkeypatch.setattr(slowest, "MOST", 50)
    run = view(records(5.0))
    section = slowest.section(run)
    assert section is not None and run.latencies_ms is not None
    points = section.charts[0]["data"][0]
    tail = run.latencies_ms[-50:]
    assert set(np.round(tail, 4)) <= set(points["y"]) and 50 < len(points["y"]) <= 100
    assert "50 slowest requests" in section.text
    (table,) = section.tables
    assert [float(row[2]) for row in table["rows"]] == pytest.approx(run.latencies_ms[::-1][:10], abs=1e-3)
    assert points["meta"][0] == "request" and len(points["meta"]) == len(points["customdata"][0])
    for latency, (_, *parts) in zip(points["y"], points["customdata"], strict=True):
        assert None in parts or sum(parts) == pytest.approx(latency, abs=1e-3)


def test_a_server_that_tells_nothing_has_two_parts() -> None:
    """What the request waited in the sender, and all from its send to its answer."""
    window = Window.of(records(5.0), 0, 10**18)
    names, parts = slowest.parts_ms(window)
    if not window.spans:
        assert names == ("before the send", "from the send to the answer")
    assert parts.shape == (len(window.sent_ns), len(names))


def test_without_raw_records_there_is_nothing_to_show() -> None:
    """Of a run that failed before its load."""
    assert slowest.section(view(None, "r", "failed: serve, it died")) is None
