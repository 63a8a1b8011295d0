"""Charts of pages: a title as text of the page wraps on a narrow screen, which plotly's own does not."""

from __future__ import annotations

from html import unescape
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart


def titled(chart: Chart | None) -> dict[str, Any] | None:
    """``chart`` without its title, and that as ``title``; None where there is no chart."""
    if chart is None:
        return None
    title, layout = chart["layout"]["title"]["text"], {**chart["layout"]}
    del layout["title"]
    layout |= {"margin": {**layout["margin"], "t": 12}, "height": layout["height"] - 32}
    return {"title": unescape(title), "chart": {**chart, "layout": layout}}
