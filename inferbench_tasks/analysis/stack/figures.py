"""The figures of the analyses: bars of what takes most, layers in their order, batch sizes, and rooflines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferbench_tasks.analysis.charts.roofline import ceiling, origin
from inferbench_tasks.analysis.charts.style import Chart, axis, chart, colour, line, text, wrapped
from inferbench_tasks.analysis.stack.kernels import Kernels

#: Bars with names beside them are so many at most, the longest.
BARS = 20


@dataclass(frozen=True)
class Measure:
    """What bars are long by: what its axis says, its unit, and how much of a table's column is one of that."""

    axis: str
    unit: str
    size: int = 1

    def of(self, value: float | None) -> float | None:
        """A value of the column in this unit; None where it is not known."""
        return None if value is None else value / self.size


MS = Measure("time, ms", "ms")
MIB = Measure("outputs, MiB", "MiB", 2**20)
LAYERS = Measure("number of layers", "layers")


def bars(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    title: str,
    stacked: Mapping[str, str],
    measure: Measure = MS,
) -> Chart:
    """A bar for each row that tells its length, called by its columns ``names``; of too many the longest.

    ``stacked``: column -> what the legend says of it.
    """
    known = [row for row in rows if all(row[column] is not None for column in stacked)]
    shown = sorted(known, key=lambda row: -sum(float(row[column]) for column in stacked))[:BARS]
    cut = f": the {len(shown)} longest of {len(known)}" if len(shown) < len(known) else ""
    labels = [
        f"{at}. {' · '.join(str(row[name]) for name in names if row[name] is not None)}"
        for at, row in enumerate(shown, 1)
    ]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": words,
            "y": [text(label) for label in labels],
            "x": [measure.of(row[column]) for row in shown],
            "marker": {"color": colour(index)},
            "hovertemplate": f"%{{y}}<br>%{{x:.4g}} {measure.unit}<extra></extra>",
        }
        for index, (column, words) in enumerate(stacked.items())
    ]
    ticks = [wrapped(label, 40, 2) for label in labels]
    return chart(
        data,
        title=f"{title}{cut}",
        xaxis=axis(measure.axis),
        yaxis=axis("", autorange="reversed", tickvals=[text(label) for label in labels], ticktext=ticks),
        barmode="stack",
        showlegend=len(stacked) > 1,
        height=120 + 34 * len(shown),
    )


def in_order(
    rows: Sequence[Mapping[str, Any]],
    column: str,
    title: str,
    measure: Measure = MS,
    so_far: str | None = None,
) -> Chart:
    """A bar for each layer at its place, none where nothing is known of it; ``so_far``: the column of their sum up to
    each, a line with an axis of its own.
    """
    places = [row["place"] for row in rows]
    about = {"x": places, "hovertext": [text(row["layer"]) for row in rows]}
    hover = f"%{{hovertext}}<br>%{{y:.4g}} {measure.unit}<extra></extra>"
    data: list[dict[str, Any]] = [
        {
            **about,
            "type": "bar",
            "name": "each layer",
            "y": [measure.of(row[column]) for row in rows],
            "marker": {"color": colour(0)},
            "hovertemplate": hover,
        }
    ]
    second: dict[str, Any] = {}
    if so_far is not None:
        data.append(
            {
                **about,
                "type": "scatter",
                "mode": "lines",
                "name": "sum so far (right)",
                "y": [measure.of(row[so_far]) for row in rows],
                "yaxis": "y2",
                "line": line(1),
                "hovertemplate": f"up to {hover}",
            }
        )
        second["yaxis2"] = _right(f"sum so far, {measure.unit}")
    return chart(
        data,
        title=title,
        xaxis=axis("layers, in the order in which they run"),
        yaxis=axis(measure.axis),
        showlegend=so_far is not None,
        **second,
    )


def over_batch_sizes(rows: Sequence[Mapping[str, Any]], title: str) -> Chart:
    """The rate at each batch size, the best marked, and the latency where any run has one."""
    sizes = [str(row["batch_size"]) for row in rows]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "throughput (star: best of those measured)",
            "x": sizes,
            "y": [row["throughput_sps"] for row in rows],
            "line": line(0),
            "marker": {
                "color": colour(0),
                "size": [14 if row["best"] else 8 for row in rows],
                "symbol": ["star" if row["best"] else "circle" for row in rows],
            },
            "hovertemplate": "batch of %{x}: %{y:.4g} samples/s<extra></extra>",
        }
    ]
    second: dict[str, Any] = {}
    if any(row["latency_ms"] is not None for row in rows):
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "median latency (right)",
                "x": sizes,
                "y": [row["latency_ms"] for row in rows],
                "yaxis": "y2",
                "line": line(1, dash="dash"),
                "marker": {"color": colour(1), "size": 8},
                "hovertemplate": "batch of %{x}: %{y:.4g} ms<extra></extra>",
            }
        )
        second["yaxis2"] = _right("median latency, ms")
    return chart(
        data,
        title=title,
        xaxis=axis("batch size", type="category"),
        yaxis=axis("throughput, samples/s", rangemode="tozero"),
        **second,
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


def _right(title: str) -> dict[str, Any]:
    """A second axis of values, at the right, from 0 on."""
    return {**axis(title), "overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False}
