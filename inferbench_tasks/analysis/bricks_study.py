"""The report of a study of bricks: DLBricks' Figures 5 to 7 as pictures, its totals, and what is known of devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.analysis import bricks_devices
from inferbench_tasks.analysis.charts.style import PALETTE, Chart, axis, chart, text
from inferbench_tasks.analysis.report.page import render, write

#: Types of layers with a colour of their own; the others are one.
_TYPES = len(PALETTE) - 1
_ROW_PX = 17


def write_report(found: dict[str, Any], path: Path) -> Path:
    """Write the page of a study's document (``bricks/study.py``), complete or not at all."""
    charts = {"unique": unique(found), "repeated": repeated(found), "jaccard": grid(found)}
    overview, devices = bricks_devices.charts(found["devices"])
    for drawn in (overview, *devices):
        charts |= drawn
    return write(
        path,
        render(
            "bricks_study.html", title=f"Bricks of {found['corpus']}", found=found, charts=charts,
            overview=list(overview), sets=bricks_devices.described_sets(found["devices"]),
            numbers=bricks_devices.numbers(found["devices"]),
            labels=[bricks_devices.label(one) for one in found["devices"]],
            of_devices=[list(drawn) for drawn in devices],
        ),
    )  # fmt: skip


def unique(found: dict[str, Any]) -> Chart:
    """Figure 5: the share of unique bricks within each model, percent."""
    rows = found["models"]
    return _bars(
        [_bar("unique", rows, [_percent(row["unique_ratio"]) for row in rows], PALETTE[0])],
        "Unique bricks within each model", "unique, % of the model's bricks", rows,
    )  # fmt: skip


def repeated(found: dict[str, Any]) -> Chart:
    """Figure 6: of which types the repeated bricks of each model are, percent of those."""
    rows = found["models"]
    types = list(found["repeated_types"])
    data = []
    for index, name in enumerate(types[:_TYPES]):
        data.append(_bar(name, rows, [_of_repeated(row, [name]) for row in rows], PALETTE[index]))
    if types[_TYPES:]:
        rest = [_of_repeated(row, types[_TYPES:]) for row in rows]
        data.append(_bar("others", rows, rest, "#CCCCCC"))
    return _bars(data, "Types of the repeated bricks", "of the model's repeated bricks, %", rows)


def grid(found: dict[str, Any]) -> Chart:
    """Figure 7: the Jaccard coefficient of each two models, 0 (nothing in common) to 1 (the same bricks)."""
    names = [text(name) for name in found["jaccard"]["models"]]
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": found["jaccard"]["grid"],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "#000000"], [1, "#D00000"]],
        "colorbar": {"title": {"text": "Jaccard"}},
        "hovertemplate": "%{y}, %{x}: %{z:.3f}<extra></extra>",
    }
    return chart(
        [trace], title="Jaccard coefficient of the models' unique bricks",
        xaxis=axis("", type="category", tickangle=-60, dtick=1),
        yaxis=axis("", type="category", autorange="reversed", dtick=1),
        height=260 + _ROW_PX * len(names), showlegend=False,
    )  # fmt: skip


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio


def _of_repeated(row: dict[str, Any], types: list[str]) -> float | None:
    among = sum(row["repeated_types"].values())
    return 100 * sum(row["repeated_types"].get(name, 0) for name in types) / among if among else None


def _bar(name: str, rows: list[dict[str, Any]], values: list[float | None], colour: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(name),
        "y": [text(row["model"]) for row in rows],
        "x": values,
        "marker": {"color": colour},
        "hovertemplate": "%{y}, " + text(name) + ": %{x:.1f}%<extra></extra>",
    }


def _bars(data: list[dict[str, Any]], title: str, unit: str, rows: list[dict[str, Any]]) -> Chart:
    return chart(
        data, title=title, barmode="stack", height=180 + _ROW_PX * len(rows), showlegend=len(data) > 1,
        xaxis=axis(unit, range=[0, 100]), yaxis=axis("", type="category", autorange="reversed", dtick=1),
    )  # fmt: skip
