"""Devices side by side: speed-ups over a reference, and costs by provider and instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart, axis, by_run, chart, colour, rows_height, text
from inferbench_tasks.analysis.devices import names
from inferbench_tasks.analysis.devices.costs import MEASURED, MERGED, doubts
from inferbench_tasks.analysis.report.page import number

#: More bars than this are no picture.
MOST_BARS = 32
#: Of a label: an instance, its region, its device and what is doubtful of its price.
_LINES = 4


def speedups(rows: Sequence[dict[str, Any]]) -> Chart | None:
    """A bar for each model and device beside the reference, with its interval, and a place without one for what does
    not keep the reference's latency, or only possibly; None without any bar.
    """
    every = [row for row in rows if row["device"] != row["reference"]]
    shown = every[:MOST_BARS]
    if all(row["ci95"] is None for row in shown):
        return None
    devices = list(dict.fromkeys(row["device"] for row in shown))
    references = sorted({row["reference"] for row in shown})
    labels = _labels(shown, several=len(references) > 1)
    values = [row["speedup"] or 0.0 for row in shown]
    over = references[0] if len(references) == 1 else "each reference"
    trace = {
        "x": values,
        "marker": {"color": [colour(devices.index(row["device"])) for row in shown]},
        "error_x": _errors(shown, "speedup"),
        "text": [_said(row) for row in shown],
        "hovertemplate": "%{y}: %{x:.4g} times<extra></extra>",
    }
    title = f"Speed-up over {over} within its latency (bars: 95% intervals){_cut(len(every))}"
    return _bars(labels, trace, title, "speed-up")


def costs(rows: Sequence[dict[str, Any]], words: str) -> Chart | None:
    """A bar for each instance, the cheapest first, what is predicted hatched; None for fewer than two. ``words``: what
    the costs are of.
    """
    shown = list(rows)[:MOST_BARS]
    if len(shown) < 2:
        return None
    providers = sorted({row["provider"] for row in shown})
    labels = [_instance(row) for row in shown]
    values = [row["usd_per_1k_samples"] for row in shown]
    trace = {
        "x": values,
        "marker": {
            "color": [colour(providers.index(row["provider"])) for row in shown],
            "pattern": {"shape": ["" if row["basis"] == MEASURED else "/" for row in shown]},
        },
        "error_x": _errors(shown, "usd_per_1k_samples"),
        "text": [number(value) for value in values],
        "hovertemplate": "%{y}: %{x:.4g} USD<extra></extra>",
    }
    hatched = " (hatched: predicted)" if any(row["basis"] != MEASURED for row in shown) else ""
    title = f"Cost of 1,000 samples: {words}{hatched}{_cut(len(rows))}"
    return _bars(labels, trace, title, "USD/1,000 samples")


def _cut(count: int) -> str:
    """What is left out of so many bars is said, and does not just miss."""
    return f" ({MOST_BARS} of {count})" if count > MOST_BARS else ""


def _bars(labels: Sequence[str], trace: dict[str, Any], title: str, unit: str) -> Chart:
    """One below the other, from zero; what they say stands behind their intervals, which would strike it through in
    the bar, and where there is no bar.
    """
    places = [text(label) for label in labels]
    common = {"type": "bar", "orientation": "h", "y": places, "textposition": "none"}
    ends = [value + more for value, more in zip(trace["x"], trace["error_x"]["array"], strict=True)]
    said = [
        {"x": end, "y": place, "text": text(words), "showarrow": False, "xanchor": "left", "xshift": 4}
        for end, place, words in zip(ends, places, trace["text"], strict=True)
    ]
    return chart(
        [common | trace],
        title=title,
        xaxis=axis(unit, rangemode="tozero"),
        yaxis=by_run(labels, _LINES),
        showlegend=False,
        height=rows_height(labels, 110, _LINES),
        annotations=said,
    )


def _instance(row: dict[str, Any]) -> str:
    """A server that merges requests is said: predictions, and all other bars, are of servers that do not."""
    parts = [f"{row['provider']} {row['instance']} ({row['region']}): {row['device']}"]
    if row["requests_merged"] == MERGED:
        parts.append("requests merged")
    return ", ".join([*parts, *doubts(row)])


def _labels(rows: Sequence[dict[str, Any]], *, several: bool) -> list[str]:
    """``several``: references, each told."""
    return [
        f"{name}: {row['device']}" + (f" over {row['reference']}" if several else "")
        for name, row in zip(names.of_rows(rows), rows, strict=True)
    ]


def _said(row: dict[str, Any]) -> str:
    if row["speedup"] is not None:
        return f"{number(row['speedup'])}x"
    if row["ci95"] is not None:
        return "possibly"
    return "none" if row["asked_alone"] and row["latency_ms"] is not None else "not measured"


def _errors(rows: Sequence[dict[str, Any]], figure: str) -> dict[str, Any]:
    """From each value to the ends of its interval."""
    values = [row[figure] or 0.0 for row in rows]
    bounds = [row["ci95"] or [value, value] for row, value in zip(rows, values, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        # Seen on a light and on a dark page, and on the bars.
        "color": "#808080",
        "array": [high - value for value, (_, high) in zip(values, bounds, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, bounds, strict=True)],
    }
