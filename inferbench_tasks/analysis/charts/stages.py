"""Where the time goes: the pipeline's stages of a request, and the parts of a cold start, as stacked bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import PALETTE, Chart, axis, by_run, chart, rows_height
from inferbench_tasks.metrics.stages import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView

_COLOURS = dict(zip(PARTS, (*PALETTE[:5], "#BBBBBB"), strict=True))
_COLD = ("process_ms", "model_load_ms", "first_answer_ms")


def pipeline(views: Sequence[RunView]) -> Chart | None:
    """Mean time per stage of a request."""
    timed = [view for view in views if view.figure("stages_ms.method")]
    if not timed:
        return None
    parts = {part: [(view.figure(f"stages_ms.{part}") or {}).get("mean") for view in timed] for part in PARTS}
    data = [_bar(part, values, timed, _COLOURS[part]) for part, values in parts.items() if any(values)]
    return _stacked(data, "Where the time of a request goes (mean)", "time per request, ms", timed)


def cold_start(views: Sequence[RunView]) -> Chart | None:
    """From the start of the server to its first answer."""
    timed = [view for view in views if view.figure("cold_start_ms.total_ms") is not None]
    if not timed:
        return None
    data = [
        _bar(
            part.removesuffix("_ms").replace("_", " "),
            [view.figure(f"cold_start_ms.{part}") for view in timed],
            timed,
            colour,
        )
        for part, colour in zip(_COLD, PALETTE, strict=False)
    ]
    return _stacked(data, "Cold start: from the start to the first answer", "time, ms", timed)


def _bar(part: str, values: list[Any], views: Sequence[RunView], colour: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": part,
        "y": [name(view) for view in views],
        "x": values,
        "marker": {"color": colour},
        "hovertemplate": f"{part}: %{{x:.3f}} ms<extra></extra>",
    }


def _stacked(data: list[dict[str, Any]], title: str, unit: str, views: Sequence[RunView]) -> Chart:
    labels = [view.label if view.valid else f"{view.label} — {view.state}" for view in views]
    return chart(
        data,
        title=title,
        xaxis=axis(unit, rangemode="tozero"),
        yaxis=by_run(labels),
        barmode="stack",
        height=rows_height(labels, 170),
    )
