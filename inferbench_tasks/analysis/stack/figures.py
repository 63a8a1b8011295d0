"""The figures of the analyses of kernels: bars of the longest, and rooflines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inferbench_tasks.analysis.charts.roofline import ceiling, origin
from inferbench_tasks.analysis.charts.style import Chart, axis, chart, colour, text, wrapped
from inferbench_tasks.analysis.stack.kernels import Kernels


def bars(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], title: str, stacked: Mapping[str, str]
) -> Chart:
    """A bar for each row, called by its columns ``names``; ``stacked``: column -> what the legend says of it, ms."""
    labels = [
        f"{at}. {' · '.join(str(row[name]) for name in names if row[name] is not None)}"
        for at, row in enumerate(rows, 1)
    ]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": words,
            "y": [text(label) for label in labels],
            "x": [row[column] for row in rows],
            "marker": {"color": colour(index)},
            "hovertemplate": "%{y}<br>%{x:.4g} ms<extra></extra>",
        }
        for index, (column, words) in enumerate(stacked.items())
    ]
    ticks = [wrapped(label, 40, 2) for label in labels]
    return chart(
        data,
        title=title,
        xaxis=axis("time, ms"),
        yaxis=axis("", autorange="reversed", tickvals=[text(label) for label in labels], ticktext=ticks),
        barmode="stack",
        showlegend=len(stacked) > 1,
        height=120 + 34 * len(rows),
    )


def roofline(rows: Sequence[Mapping[str, Any]], name: str, kernels: Kernels, title: str) -> Chart:
    """A point for each row with both rates; it takes ceilings. ``name``: the column that calls it."""
    ceilings = kernels.ceilings
    assert ceilings is not None, "asked only where nothing is missing"
    points = [row for row in rows if row["of_roof_ratio"]]  # others are not of this roof, or took no time
    xs = [row["flop_per_byte"] for row in points]
    x = np.geomspace(min([*xs, 0.1]) / 2, max([*xs, 100]) * 2, 100)
    roof = ceiling(x, ceilings.gflops, ceilings.gb_s, origin(ceilings, 1), "solid")
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": xs,
        "y": [row["gflop_per_s"] for row in points],
        "text": [text(row[name]) for row in points],
        "marker": {"size": 9, "color": colour(0)},
        "hovertemplate": "%{x:.3g} FLOP/byte, %{y:.3g} GFLOP/s<extra>%{text}</extra>",
    }
    return chart(
        [roof, dots],
        title=title,
        xaxis=axis("operational intensity, FLOP per byte (log)", log=True),
        yaxis=axis("attained, GFLOP/s (log)", log=True),
    )
