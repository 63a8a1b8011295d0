"""Devices side by side: speed-ups over a reference, and costs by provider and instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart, axis, by_run, chart, colour, rows_height, text
from inferbench_tasks.analysis.report.page import number

#: More bars than this are no picture.
MOST_BARS = 32


def speedups(rows: Sequence[dict[str, Any]]) -> Chart | None:
    """A bar for each model and device that keeps the reference's latency, with its interval; None without any."""
    shown = [row for row in rows if row["ci95"] is not None][:MOST_BARS]
    if not shown:
        return None
    devices = list(dict.fromkeys(row["device"] for row in shown))
    labels = [f"{row['model']}, {row['precision']}: {row['device']}" for row in shown]
    values = [row["speedup"] for row in shown]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [text(label) for label in labels],
        "x": values,
        "marker": {"color": [colour(devices.index(row["device"])) for row in shown]},
        "error_x": _errors(shown, "speedup"),
        "text": [f"{number(value)}x" for value in values],
        "textposition": "inside",
        "hovertemplate": "%{y}: %{x:.4g} times<extra></extra>",
    }
    return chart(
        [trace],
        title=f"Speed-up over {shown[0]['reference']} within its latency (bars: 95% intervals)",
        xaxis=axis("samples/s over the reference's", rangemode="tozero"),
        yaxis=by_run(labels),
        showlegend=False,
        height=rows_height(labels, 110),
    )


def costs(rows: Sequence[dict[str, Any]]) -> Chart | None:
    """A bar for each instance, the cheapest first, what is predicted hatched; None for fewer than two."""
    shown = list(rows)[:MOST_BARS]
    if len(shown) < 2:
        return None
    providers = sorted({row["provider"] for row in shown})
    labels = [f"{row['provider']} {row['instance']} ({row['region']}): {row['device']}" for row in shown]
    values = [row["usd_per_1k_samples"] for row in shown]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [text(label) for label in labels],
        "x": values,
        "marker": {
            "color": [colour(providers.index(row["provider"])) for row in shown],
            "pattern": {"shape": ["" if row["basis"] == "measured" else "/" for row in shown]},
        },
        "error_x": _errors(shown, "usd_per_1k_samples"),
        "text": [number(value) for value in values],
        "textposition": "inside",
        "hovertemplate": "%{y}: %{x:.4g} USD<extra></extra>",
    }
    hatched = " (hatched: predicted)" if any(row["basis"] != "measured" for row in shown) else ""
    return chart(
        [trace],
        title=f"Cost of 1,000 samples{hatched}",
        xaxis=axis("USD/1,000 samples", rangemode="tozero"),
        yaxis=by_run(labels),
        showlegend=False,
        height=rows_height(labels, 110),
    )


def _errors(rows: Sequence[dict[str, Any]], figure: str) -> dict[str, Any]:
    """From each value to the ends of its interval."""
    bounds = [row["ci95"] or [row[figure], row[figure]] for row in rows]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - row[figure] for row, (_, high) in zip(rows, bounds, strict=True)],
        "arrayminus": [row[figure] - low for row, (low, _) in zip(rows, bounds, strict=True)],
    }
