"""Single requests of a run: each latency over time, and where the time of the slowest went."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.analysis.charts.style import Chart, axis, chart
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import Section
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.stages import PARTS, per_request

#: Drawn are the slowest requests, and as many of the others, evenly over time.
MOST = 1000
_LISTED = 10
#: Of a server that tells no spans.
_WITHOUT_SPANS = ("before the send", "from the send to the answer")
_NAMES = {"unattributed": "before the send"}


def section(view: RunView) -> Section | None:
    """A point for each request with its parts, and a table of the slowest; None without raw records."""
    if view.records is None or view.result is None or view.problem is not None:
        return None
    bounds = view.result.extensions["measured_window"]
    window = Window.of(view.records(), bounds["start_ns"], bounds["end_ns"])
    if not window.answered.any():
        return None
    latency_ms = (window.done_ns - window.intended_ns) / 1e6
    at_s = (window.intended_ns - window.start_ns) / 1e9
    answered = np.flatnonzero(window.answered)
    slowest = answered[np.argsort(-latency_ms[answered], kind="stable")]
    others = np.sort(slowest[MOST:])
    some = others[:: max(1, -(-len(others) // MOST))]
    shown = np.sort(np.concatenate([slowest[:MOST], some]))
    names, parts = parts_ms(window)
    told = ~np.isnan(parts).any(axis=1)
    rows = [
        [f"{window.request_id[i]}", f"{at_s[i]:.3f}", f"{latency_ms[i]:.3f}"]
        + ([f"{value:.3f}" for value in parts[i]] if told[i] else ["–"] * len(names))
        for i in slowest[:_LISTED]
    ]
    table = {
        "title": f"The {len(rows)} slowest requests",
        "head": ["request", "meant for, s", "latency, ms", *(f"{name}, ms" for name in names)],
        "rows": rows,
        "note": "The parts of a request add up to its latency. Before the send: what it waited in the sender, or for "
        "one of the connections of which so many were asked for.",
    }
    left = len(answered) - len(shown)
    text = (
        "A click on a point shows where that request's time went; drag to look closer, double-click to go back."
        + (f" Drawn are the {MOST:,} slowest requests and {len(some):,} of the others." if left else "")
    )
    if view.trace:
        text += " Layers were traced on a server of its own, on other requests: see Layers."
    return Section("Single requests", [_points(window, shown, at_s, latency_ms, names, parts)], text, [table])


def parts_ms(window: Window) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the parts of a request, and requests x parts in ms; NaN where the server told nothing of a request."""
    spans = per_request(window)
    if not spans:
        late, rest = window.sent_ns - window.intended_ns, window.done_ns - window.sent_ns
        return _WITHOUT_SPANS, np.stack([late, rest], axis=1) / 1e6
    values = np.stack([spans[part] for part in PARTS], axis=1) / 1e6
    values[~spans["told"]] = np.nan
    return tuple(_NAMES.get(part, part) for part in PARTS), values


def _points(
    window: Window,
    shown: np.ndarray,
    at_s: np.ndarray,
    latency_ms: np.ndarray,
    names: tuple[str, ...],
    parts: np.ndarray,
) -> Chart:
    points: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "marker": {"size": 5, "opacity": 0.6},
        "x": np.round(at_s[shown], 4).tolist(),
        "y": np.round(latency_ms[shown], 4).tolist(),
        "meta": ["request", *names],
        "customdata": [
            [int(window.request_id[i]), *(None if np.isnan(v) else round(float(v), 4) for v in parts[i])]
            for i in shown
        ],
        "hovertemplate": "request %{customdata[0]}: %{y:.3f} ms, meant for %{x:.3f} s<extra></extra>",
        "showlegend": False,
    }
    return chart(
        [points],
        title="Every request by the moment it was meant for",
        xaxis=axis("time since the measurement began, s"),
        yaxis=axis("end-to-end latency, ms (log)", log=True),
        meta="requests",
    )
