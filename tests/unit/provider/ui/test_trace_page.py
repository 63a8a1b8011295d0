"""The page of a trace, from made-up values."""

from __future__ import annotations

import pytest

from inferbench_tasks.provider.ui.render import page
from inferbench_tasks.provider.ui.trace_pages import _Shown

pytestmark = pytest.mark.airflow


def test_what_others_are_divided_by_has_no_interval() -> None:
    """It is 1 times itself in each round, so that an interval from 1 to 1 would say nothing."""
    overheads = [
        {"level": "application", "latency_ms": 10.0, "ratio": 1.0, "ci95": [1.0, 1.0]},
        {"level": "layer", "latency_ms": 12.0, "ratio": 1.2, "ci95": [1.1, 1.3]},
        {"level": "library", "latency_ms": 13.0, "ratio": 1.3, "ci95": None},
    ]
    shown = _Shown("r.000", "r", overheads=overheads, drawn=False)
    text = bytes(page("trace.html", here="traces", **vars(shown)).body).decode()
    rows = text.partition("What instruments cost")[2].partition("</table>")[0].split("<tr>")[2:]
    assert [row.replace("</td>", "").split('<td class="n">')[2].partition("<")[0] for row in rows] == [
        "–", "1.1–1.3", "–",
    ]  # fmt: skip
