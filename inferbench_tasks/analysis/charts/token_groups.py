"""The time to the first token of groups of requests: by the prompt's length, by what a cache knew of the prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, chart, colour

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


def by_prompt_tokens(views: Sequence[RunView]) -> Chart | None:
    """Medians by the prompt's tokens, from each power of two to the next."""
    return _bars(
        views,
        "by_prompt_tokens",
        "Time to the first token by the prompt's length (median)",
        "tokens of the prompt, as the server counted them",
        lambda row: f"{row['from_tokens']:,} to {row['to_tokens']:,}",
        lambda row: row["from_tokens"],
    )


def by_cached(views: Sequence[RunView]) -> Chart | None:
    """Medians by the part of the prompt that the server had in its cache."""
    order = ("none", "less than half", "half or more")
    return _bars(
        views,
        "by_cached",
        "Time to the first token by what the server's cache knew of the prompt (median)",
        "of the prompt's tokens",
        lambda row: str(row["cached"]),
        lambda row: order.index(row["cached"]),
    )


def _bars(
    views: Sequence[RunView],
    series: str,
    title: str,
    x_title: str,
    label: Callable[[dict[str, Any]], str],
    place: Callable[[dict[str, Any]], int],
) -> Chart | None:
    """A bar for each group with a median; None where no run has two, which would show no difference."""
    rows_of = {
        index: [row for row in view.figure(f"tokens.{series}") or [] if row["ttft_p50_ms"] is not None]
        for index, view in enumerate(views[:MAX_RUNS])
    }
    if not any(len(rows) > 1 for rows in rows_of.values()):
        return None
    places = {label(row): place(row) for rows in rows_of.values() for row in rows}
    data = [
        {
            "type": "bar",
            "name": name(views[index]),
            "x": [label(row) for row in rows],
            "y": [row["ttft_p50_ms"] for row in rows],
            "customdata": [row["requests"] for row in rows],
            "marker": {"color": colour(index), "opacity": 1 if views[index].valid else 0.35},
            "hovertemplate": "%{y:.4g} ms of %{customdata} requests, %{x}<extra>%{fullData.name}</extra>",
        }
        for index, rows in rows_of.items()
        if rows
    ]
    categories = sorted(places, key=lambda text: places[text])
    return chart(
        data,
        title=title,
        xaxis=axis(x_title, type="category", categoryorder="array", categoryarray=categories),
        yaxis=axis("time to the first token, ms", rangemode="tozero"),
        barmode="group",
    )
