"""The report of all series: HTML that opens without internet, and the same as JSON."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.page import render, write
from inferbench_tasks.errors import StorageError


def write_report(outcome: dict[str, Any], folder: Path) -> list[Path]:
    """``index.html`` and ``report.json`` in the folder; raises StorageError if it can't be written."""
    text = json.dumps(outcome, indent=1, default=_plain, ensure_ascii=False, allow_nan=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{folder} can't be written: {error.strerror}") from error
    charts = {str(number): chart(series) for number, series in enumerate(outcome["series"])}
    page = render("regression.html", title="Regressions", outcome=outcome, charts=charts)
    return [write(folder / "index.html", page), folder / "report.json"]


def chart(series: dict[str, Any]) -> dict[str, Any]:
    """A chart: the change of every session, confirmed changes as lines, what can't be told apart as a band."""
    points, mde = series["points"], series["minimum_detectable_effect_percent"] or 0
    # It is of ln ratios: what is as far below no change as +100% is above is -50%.
    least = -100 * mde / (100 + mde)
    lines = [
        {
            "type": "line", "x0": event["session"], "x1": event["session"], "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": "#b00020" if event["worse"] else "#00664a", "width": 2},
        }
        for event in series["events"] if event["kind"] == "confirmed"
    ]  # fmt: skip
    band = {
        "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": least, "y1": mde, "fillcolor": "#888", "opacity": 0.12,
        "line": {"width": 0},
    }  # fmt: skip
    return {
        "data": [
            {
                "type": "scatter", "mode": "lines+markers", "x": [p["session"] for p in points],
                "y": [p["change_percent"] for p in points], "marker": {"color": "#0072b2"},
                "text": [f"{p['baseline']:.4g} to {p['candidate']:.4g} {series['unit']}" for p in points],
            }
        ],
        "layout": {
            "height": 260, "margin": {"l": 60, "r": 10, "t": 10, "b": 30}, "shapes": [band, *lines],
            "xaxis": {"showticklabels": False, "title": {"text": "session"}, "type": "category"},
            "yaxis": {"title": {"text": "change, %"}, "zeroline": True},
        },
    }  # fmt: skip


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} in the report")


def report_folder(name: str) -> Path:
    """Where a submission's newest report lies."""
    return settings.data_dir() / "regression" / "reports" / name
