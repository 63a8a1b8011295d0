"""The page of a trace, from made-up values."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.provider.ui.render import page
from inferbench_tasks.provider.ui.trace_pages import _Shown, _stages, _tell_of_run
from inferbench_tasks.tracing.spans import Span
from tests.unit.perfdb.builders import result

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


@pytest.mark.parametrize("share", [{}, {"one_in": 20, "of": 1_000, "failed": 0, "unanswered": 0}])
def test_figures_of_a_sampler_that_failed_are_said_to_be_of_a_part(share: dict[str, Any]) -> None:
    """Whether requests were asked one by one or are a share of a load, of which it is said how large it is, too."""
    row: dict[str, Any] = {
        "counter": "server's CPU, cores",
        "samples": 30,
        "least": 0.5,
        "mean": 1.25,
        "most": 2.0,
    }
    told: dict[str, Any] = {
        "requests": 51,
        "spans": 9,
        "lost": 0,
        "counters": [row],
        "unseen": "it was killed",
    } | share
    shown = _Shown("r.000", "r", drawn=False)
    _tell_of_run(shown, result(extensions={"trace": told}))
    text = bytes(page("trace.html", here="traces", **vars(shown)).body).decode()
    assert "Monitors did not see all of it: it was killed." in text and "1.25" in text
    assert ("51 of 1,000 requests of the load were traced" in text) == bool(share)


def test_what_monitors_saw_stands_below_the_pictures() -> None:
    """A row for each figure, with its unit; a trace of before has no such table."""
    counters = [{"counter": "server's CPU, cores", "samples": 12, "least": 0.5, "mean": 1.25, "most": 2.0}]

    def table(kept: list[dict[str, Any]]) -> str:
        shown = _Shown("r.000", "r", counters=kept, drawn=False)
        text = bytes(page("trace.html", here="traces", **vars(shown)).body).decode()
        return text.partition("What monitors saw meanwhile")[2].partition("</table>")[0]

    assert table([]) == ""
    cells = table(counters).split("<tr>")[2]
    assert "server&#39;s CPU, cores" in cells and all(f">{n}<" in cells for n in ("12", "0.5", "1.25", "2"))


def test_the_stages_of_a_run_stand_below_the_pictures() -> None:
    """A row for the invocation and one for each stage, at the seconds after it; a run without a record has no table."""
    about = {"state": "done", "host": "far"}
    spans = [
        Span(
            "a" * 32, 0, -1, "application", "invocation", 10**9, 30 * 10**9, attributes={"state": "running"}
        ),
        Span("a" * 32, 1, 0, "application", "trace", 5 * 10**9, 20 * 10**9, attributes=about),
    ]

    def text(kept: list[Span]) -> str:
        shown = _Shown("r.000", "r", stages=_stages(kept), drawn=False)
        return bytes(page("trace.html", here="traces", **vars(shown)).body).decode()

    assert "Its invocation and stages" not in text([])
    rows = text(spans).partition("Its invocation and stages")[2].partition("</table>")[0].split("<tr>")[2:]
    assert len(rows) == 2 and "running" in rows[0]
    assert all(f">{cell}<" in rows[1] for cell in ("trace", "far", "done", "4", "20"))
