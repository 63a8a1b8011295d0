"""The network between a load's host and the server's, beside the latencies that were measured through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.style import (
    MAX_RUNS,
    Chart,
    axis,
    by_run,
    chart,
    colour,
    rows_height,
    text,
)
from inferbench_tasks.analysis.report.client_host import (
    MOMENTS,
    client_hosts,
    is_further,
    label_of,
    round_trips,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from inferbench_tasks.analysis.report.runs import RunView

#: What is marked of a distribution, with its sign: of round trips by these names, of latencies where they are told.
_MARKS = {"min_ms": "least", "p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "max_ms": "most"}
_SIGNS = ("line-ns-open", "circle", "diamond", "square", "line-ns-open")


def network(views: Sequence[RunView]) -> Chart | None:
    """A row for each measurement of a link, and one for the requests that went over it; None without such a run."""
    rows = [row for view, host in client_hosts(views)[:MAX_RUNS] for row in _rows(view, host)]
    if not rows:
        return None
    data: list[dict[str, Any]] = []
    for index, (mark, called) in enumerate(_MARKS.items()):
        points = [(label, values[mark]) for label, values in rows if values.get(mark)]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": called,
                "x": [value for _, value in points],
                "y": [text(label) for label, _ in points],
                "marker": {
                    "symbol": _SIGNS[index], "size": 10, "color": colour(index),
                    "line": {"width": 2, "color": colour(index)},
                },
                "hovertemplate": "%{x:.4g} ms<extra>%{y}: %{fullData.name}</extra>",
            }
        )  # fmt: skip
    labels = [label for label, _ in rows]
    return chart(
        [trace for trace in data if trace["x"]],
        title="Round trips between the hosts, and the requests over them",
        xaxis=axis("ms", log=True),
        yaxis=by_run(labels),
        height=rows_height(labels, 140),
    )


def _rows(view: RunView, host: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    label = label_of(view, host)
    label = label if view.valid else f"{label} — {view.state}"
    rows = [(f"{label}: link {MOMENTS[moment]}", trip) for moment, trip in round_trips(host).items()]
    if is_further(host):
        return rows
    latency = view.figure("e2e_latency_ms") or {}
    told = {mark: latency.get(mark.removesuffix("_ms")) for mark in _MARKS}
    return [*rows, (f"{label}: requests", told)] if any(told.values()) else rows
