"""The report's pictures: predicted against measured, ratios, granularities, where the time goes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import PALETTE, Chart, axis, chart, text
from inferbench_tasks.brick_jobs.report.tables import each, of_granularity
from inferbench_tasks.brick_jobs.result import BricksResult

_ROW_PX = 20
#: Types of layers with a colour of their own; the others are one.
_TYPES = len(PALETTE) - 1


def against(results: Sequence[BricksResult]) -> Chart | None:
    """Predicted over measured time of each model (the paper's Figure 9 is the lower axis), with intervals."""
    rows = [(label, one) for label, one in each(results) if one.measured is not None]
    if not rows:
        return None
    measured = [one.measured.ms for _, one in rows if one.measured]
    predicted = [one.best.ms for _, one in rows]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": measured,
        "y": predicted,
        "text": [text(label) for label, _ in rows],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [one.best.high_ms - one.best.ms for _, one in rows],
            "arrayminus": [one.best.ms - one.best.low_ms for _, one in rows],
        },
        "marker": {"color": PALETTE[0], "size": 8},
        "hovertemplate": "%{text}: measured %{x:.4g} ms, predicted %{y:.4g} ms<extra></extra>",
    }
    ends = [min(*measured, *predicted), max(*measured, *predicted)]
    same = {
        "type": "scatter", "mode": "lines", "x": ends, "y": ends, "line": {"color": "#999", "dash": "dot"},
        "hoverinfo": "skip",
    }  # fmt: skip
    return chart(
        [same, trace], title="Predicted against measured latency", showlegend=False, height=420,
        xaxis=axis("measured, ms", log=True), yaxis=axis("predicted, ms", log=True),
    )  # fmt: skip


def ratios(results: Sequence[BricksResult]) -> Chart | None:
    """The paper's Figures 3 and 10: sums and critical paths of each model over its own time."""
    rows = [(label, one) for label, one in each(results) if one.measured is not None]
    if not rows:
        return None
    labels = [text(label) for label, _ in rows]
    kinds: tuple[tuple[str, list[float | None]], ...] = (
        ("sum of warm times", [one.warm_sum.ms / one.measured.ms for _, one in rows if one.measured]),
        ("critical path", [one.parallel.ms / one.measured.ms for _, one in rows if one.measured]),
        ("sum of streamed times", [one.streamed.ms / one.measured.ms for _, one in rows if one.measured]),
        (
            "calibrated by others",
            [one.best.ms / one.measured.ms if one.calibrated else None for _, one in rows if one.measured],
        ),
    )
    data = [
        {
            "type": "scatter", "mode": "markers", "name": name, "y": labels, "x": values,
            "marker": {"color": PALETTE[index], "size": 8, "symbol": ("circle", "diamond", "x", "square")[index]},
            "hovertemplate": "%{y}, " + name + ": %{x:.3f}<extra></extra>",
        }
        for index, (name, values) in enumerate(kinds)
        if any(value is not None for value in values)
    ]  # fmt: skip
    return chart(
        data, title="Constructed over measured", height=220 + _ROW_PX * len(rows),
        xaxis=axis("over the measured time"), yaxis=axis("", type="category", autorange="reversed", dtick=1),
    )  # fmt: skip


def by_granularity(results: Sequence[BricksResult]) -> Chart | None:
    """The paper's Figures 11 and 12: the geometric mean over all models, and the speed-up, by granularity."""
    rows = [row for row in of_granularity(results) if row["plain"] is not None]
    if len({row["granularity"] for row in rows}) < 2:
        return None
    labels = [
        f"G {row['granularity']}, batch {row['batch_size']}"
        + (f", {row['setting']}" if row["setting"] else "")
        for row in rows
    ]
    data = [
        {"type": "bar", "name": "constructed over measured, geometric mean", "x": labels,
         "y": [row["plain"]["geometric_mean"] for row in rows], "marker": {"color": PALETTE[0]}},
        {"type": "scatter", "mode": "markers", "name": "speed-up as the paper counts (right)", "x": labels,
         "y": [row["speedup_ratio"] for row in rows], "yaxis": "y2", "marker": {"color": PALETTE[1], "size": 10}},
    ]  # fmt: skip
    return chart(
        data, title="By granularity", xaxis=axis("", type="category"), yaxis=axis("over the measured time"),
        yaxis2={**axis("speed-up"), "overlaying": "y", "side": "right", "rangemode": "tozero"},
    )  # fmt: skip


def where(results: Sequence[BricksResult]) -> Chart | None:
    """The share of each model's constructed time by the layers of its bricks."""
    rows = list(each(results))
    if not rows:
        return None
    totals: defaultdict[str, float] = defaultdict(float)
    for _, one in rows:
        for of in one.by_operators:
            totals[of["operators"]] += of["share_ratio"]
    names = sorted(totals, key=lambda name: (-totals[name], name))
    labels = [text(label) for label, _ in rows]
    data = [
        _bar(name, labels, [_share(one.by_operators, [name]) for _, one in rows], PALETTE[index])
        for index, name in enumerate(names[:_TYPES])
    ]
    if names[_TYPES:]:
        rest = [_share(one.by_operators, names[_TYPES:]) for _, one in rows]
        data.append(_bar("others", labels, rest, "#CCCCCC"))
    return chart(
        data, title="Where the time goes, by layers", barmode="stack", height=220 + _ROW_PX * len(rows),
        xaxis=axis("of the constructed time, %", range=[0, 100]),
        yaxis=axis("", type="category", autorange="reversed", dtick=1),
    )  # fmt: skip


def _share(by_operators: Sequence[dict[str, Any]], names: Sequence[str]) -> float:
    return 100 * math.fsum(of["share_ratio"] for of in by_operators if of["operators"] in names)


def _bar(name: str, labels: list[str], values: list[float], colour: str) -> dict[str, Any]:
    return {
        "type": "bar", "orientation": "h", "name": text(name), "y": labels, "x": values, "marker": {"color": colour},
        "hovertemplate": "%{y}, " + text(name) + ": %{x:.1f}%<extra></extra>",
    }  # fmt: skip
