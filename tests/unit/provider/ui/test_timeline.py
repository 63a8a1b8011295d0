"""The timeline of the page *Cluster*."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from inferbench_tasks.cluster.timeline import Stay
from inferbench_tasks.provider.ui.cluster_page import timeline

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stay(run: str, begun_s: float, ended_s: float | None) -> Stay:
    """On one device, seconds after the page was asked for."""
    begun = NOW + timedelta(seconds=begun_s)
    ended = None if ended_s is None else NOW + timedelta(seconds=ended_s)
    return Stay(
        device="a.cpu-0", run=run, submission="s", user="ann", login=None, state="running", started_at=begun,
        ended_at=ended,
    )  # fmt: skip


def test_a_run_that_began_while_the_page_was_made_has_no_negative_bar() -> None:
    """Runs are read after the time was asked for; one before them lasts until the last of them."""
    chart = timeline([stay("a", -60, None), stay("b", 0.5, None)], NOW - timedelta(hours=1), NOW)
    assert chart is not None
    (bars,) = chart["data"]
    assert bars["x"] == [60_500, 0]
