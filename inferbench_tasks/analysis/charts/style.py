"""How all charts look: plotly's JSON as plain values, one palette, print-friendly, units on the axes."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

#: A chart: {"data": [...], "layout": {...}} as plotly.js takes it.
Chart = dict[str, Any]

#: Okabe and Ito's colours, told apart with colour blindness and in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
SLO_COLOUR = "#B00020"
_DASHES = ("solid", "dash", "dot", "dashdot")
#: 1, 2, 5 in every decade.
LOG_TICKS = [float(f"{digit}e{decade}") for decade in range(-6, 13) for digit in (1, 2, 5)]
#: More lines than this can't be told apart: charts by run then leave out the rest and say so.
MAX_RUNS = 16


def text(value: object) -> str:
    """Text as plotly shows it literally (plotly reads a few HTML tags)."""
    return html.escape(str(value), quote=False)


def wrapped(label: str, width: int = 30, lines: int = 3) -> str:
    """A long label on a few lines, so that it leaves room for the chart; what is cut off is in the hover text."""
    parts = textwrap.wrap(label, width, break_long_words=True) or [""]
    if len(parts) > lines:
        parts = [*parts[: lines - 1], textwrap.shorten(" ".join(parts[lines - 1 :]), width, placeholder=" …")]
    return "<br>".join(text(part) for part in parts)


def by_run(labels: Sequence[str], lines: int = 3) -> dict[str, Any]:
    """A category axis with a run in each row, top down, its label wrapped on so many lines at most."""
    names = [text(label) for label in labels]
    ticks = [wrapped(label, lines=lines) for label in labels]
    return axis(
        "", type="category", autorange="reversed", tickvals=names, ticktext=ticks, tickfont={"size": 11}
    )


def rows_height(labels: Sequence[str], around: int, lines: int = 3) -> int:
    """How high a chart with a run in each row is, px."""
    return around + sum(16 + 14 * (1 + wrapped(label, lines=lines).count("<br>")) for label in labels)


def colour(index: int) -> str:
    """The colour of the index-th run, the same in every chart."""
    return PALETTE[index % len(PALETTE)]


def line(index: int, **more: Any) -> dict[str, Any]:
    """The line of the index-th run: colours first, then dashes."""
    dash = _DASHES[index // len(PALETTE) % len(_DASHES)]
    return {"color": colour(index), "dash": dash, "width": 2, **more}


def axis(title: str, *, log: bool = False, **more: Any) -> dict[str, Any]:
    """An axis with its title, unit included."""
    settings: dict[str, Any] = {
        "title": {"text": text(title), "standoff": 8},
        "gridcolor": "#e6e6e6",
        "linecolor": "#888",
        "ticks": "outside",
        "tickcolor": "#888",
        "zeroline": False,
        "automargin": True,
        # Not plotly's 200µ, which reads like another unit.
        "exponentformat": "power",
        **more,
    }
    if log:
        settings |= {
            "type": "log",
            "tickvals": LOG_TICKS,
            "ticktext": [f"{value:,.15g}" for value in LOG_TICKS],
        }
    return settings


def chart(data: list[dict[str, Any]], *, title: str, xaxis: Any, yaxis: Any, **layout: Any) -> Chart:
    """A chart in the common style; its legend stands below and gets the height that it needs."""
    rows = _legend_rows(data) if layout.get("showlegend") is not False else 0
    below = 56 + _LEGEND_ROW_PX * rows
    return {
        "data": data,
        "layout": {
            "title": {"text": text(title), "x": 0, "xanchor": "left", "font": {"size": 15}},
            "xaxis": _ticked(xaxis, _numbers([*data, *_bounds(layout, "x")], "x")),
            "yaxis": _ticked(yaxis, _numbers([*data, *_bounds(layout, "y")], "y")),
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#222"},
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "margin": {"l": 60, "r": 20, "t": 44, "b": below},
            "legend": {
                "orientation": "h",
                "yref": "container",
                "yanchor": "bottom",
                "y": 0,
                "x": 0,
                "tracegroupgap": 0,
            },
            "hovermode": "closest",
            # Upright, beside the plot: across, it covers the title while the mouse is over the chart.
            "modebar": {"orientation": "v", "bgcolor": "rgba(255,255,255,0.8)"},
            "colorway": list(PALETTE),
            **layout,
            "height": max(layout.get("height", 0), 320 + below),
        },
    }


def _numbers(data: list[dict[str, Any]], along: str) -> list[float]:
    values = (value for trace in data for value in _listed(trace.get(along)))
    return [float(value) for value in values if isinstance(value, (int, float)) and value > 0]


def _bounds(layout: dict[str, Any], along: str) -> list[dict[str, Any]]:
    """The values of lines at bounds, as if they were data: an axis reaches to them."""
    shapes = layout.get("shapes") or ()
    return [{along: [shape[f"{along}0"]]} for shape in shapes if shape.get(f"{along}ref") != "paper"]


def _listed(values: Any) -> Iterable[Any]:
    return values if isinstance(values, (list, tuple)) else ()


def _ticked(given: Any, values: list[float]) -> Any:
    """A logarithmic axis whose values lie between two of its ticks gets closer ones, or it would show no number."""
    if given.get("tickvals") is not LOG_TICKS or not values:
        return given
    low, high = min(values), max(values)
    if sum(low <= tick <= high for tick in LOG_TICKS) > 1:
        return given
    ticks = close_ticks(low, high)
    return {**given, "tickvals": ticks, "ticktext": [f"{tick:,.6g}" for tick in ticks]}


def close_ticks(low: float, high: float) -> list[float]:
    """Three to eight round numbers at equal steps around what lies between both, which are above 0."""
    span = high - low or low / 10
    power = 10.0 ** math.floor(math.log10(span / 3))
    step = next(size * power for size in (1, 2, 5, 10) if span / (size * power) <= 5)
    first = max(1, math.floor(low / step))
    last = max(first + 1, math.ceil(high / step))
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


#: Height of a legend's row, px, and how many characters fit into half a page's width.
_LEGEND_ROW_PX, _LEGEND_CHARACTERS = 20, 60


def _legend_rows(data: list[dict[str, Any]]) -> int:
    """Rows that the legend takes: plotly sets as many entries side by side as the widest leaves room for."""
    names = [
        str(trace["name"]) for trace in data if trace.get("name") and trace.get("showlegend") is not False
    ]
    if len(names) < 2:
        return 0 if not names else 1
    each_row = max(1, _LEGEND_CHARACTERS // (max(len(name) for name in names) + 6))
    return -(-len(names) // each_row)


def bound(value: float, label: str, *, along: str = "x") -> dict[str, Any]:
    """A line at a bound (an SLO), as a shape with its label."""
    across = "y" if along == "x" else "x"
    return {
        "type": "line",
        f"{along}0": value,
        f"{along}1": value,
        f"{across}0": 0,
        f"{across}1": 1,
        f"{across}ref": "paper",
        "line": {"color": SLO_COLOUR, "width": 1.5, "dash": "dash"},
        "label": {
            "text": text(label),
            "textposition": "middle" if along == "x" else "end",
            "font": {"color": SLO_COLOUR, "size": 11},
        },
    }
