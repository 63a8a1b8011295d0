"""The roofline: what a model reaches against what its operational intensity allows (``analysis.intensity``).

Ceilings: measured on one core (``analysis.ceilings``) times the server's threads, so a run with several threads may lie
below for want of bandwidth alone; the datasheet's dashed, where ``configs/hardware.yaml`` has it. A run stands below
ceilings of the precision that it computes in: a GPU's fp16 may lie above the roof of fp32. Of a file that came
quantised, and of ONNX in half precision on a CPU, nobody knows that (``formats.computed_precision``): it is not drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, chart, colour
from inferbench_tasks.analysis.intensity import position
from inferbench_tasks.formats.computed_precision import computed_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.ceilings import Ceilings
    from inferbench_tasks.analysis.report.runs import RunView
    from inferbench_tasks.catalogue import Hardware

    #: A run with its FLOP/byte and GFLOP/s.
    _Placed = tuple[RunView, tuple[float, float]]

#: The precision of the measured ceilings.
_MEASURED_IN = "fp32"


def rooflines(views: Sequence[RunView], measured: Ceilings | None, sheet: Hardware | None) -> list[Chart]:
    """Points of all runs whose FLOPs, bytes and inference time are known, below the ceilings of their precision: a
    chart of each that has one, fp32 first.
    """
    of_each = ((precision, points) for precision, points in _placed(views).items())
    return [
        _chart(precision, points, roofs)
        for precision, points in of_each
        if precision is not None and (roofs := _roofs(precision, points, measured, sheet))
    ]


def not_drawn(views: Sequence[RunView], measured: Ceilings | None, sheet: Hardware | None) -> str:
    """Of which runs nobody knows the ceiling, though that of others is known; "" of none."""
    if measured is None and sheet is None:
        return ""
    placed = _placed(views)
    lost = {
        precision: len(points)
        for precision, points in placed.items()
        if precision is not None and not _roofs(precision, points, measured, sheet)
    }
    runs = ", ".join(f"{count} run(s) in {precision}" for precision, count in lost.items())
    texts = (
        [f"Not drawn: {runs}; what the device reaches in that precision is not known here."] if lost else []
    )
    if unknown := len(placed.get(None, ())):
        texts.append(
            f"Not drawn: {unknown} run(s) of models that came quantised, or of ONNX in half precision on a CPU; in "
            "which precision they compute is not known."
        )
    return " ".join(texts)


def _placed(views: Sequence[RunView]) -> dict[str | None, list[_Placed]]:
    """The runs that have a place, by the precision that they compute in; None: it is not known."""
    placed: dict[str | None, list[_Placed]] = {}
    for view in views:
        if view.result and (place := position(view)):
            asked = (view.job.get("convert") or {}).get("precision")
            precision = computed_in(
                asked, view.result.model.precision, view.result.format, view.result.device.kind
            )
            placed.setdefault(precision, []).append((view, place))
    return dict(sorted(placed.items(), key=lambda item: (item[0] != _MEASURED_IN, item[0] or "")))


def _roofs(
    precision: str, points: Sequence[_Placed], measured: Ceilings | None, sheet: Hardware | None
) -> list[dict[str, Any]]:
    """The ceilings of that precision: the product of matrices was measured in fp32 alone."""
    xs = [point[0] for _, point in points]
    x = np.geomspace(min(*xs, 0.1) / 2, max(*xs, 100) * 2, 100)
    data: list[dict[str, Any]] = []
    if measured and precision == _MEASURED_IN:
        # A run with one thread stands below the roof of one core, whatever others beside it had.
        data += [
            ceiling(x, measured.gflops * threads, measured.gb_s * threads, origin(measured, threads), "solid")
            for threads in sorted({int(view.job.get("serve", {}).get("threads", 1)) for view, _ in points})
        ]
    if sheet and sheet.bandwidth_gb_s and (peak := sheet.peak(precision)):
        data.append(ceiling(x, peak * 1e3, sheet.bandwidth_gb_s, f"datasheet, {sheet.name}", "dash"))
    return data


def _chart(precision: str, points: Sequence[_Placed], roofs: list[dict[str, Any]]) -> Chart:
    data = [*roofs]
    # A legend of fifty runs hides the chart: their models then, and each run's name where one points.
    many = len(points) > MAX_RUNS
    groups: dict[str, list[_Placed]] = {}
    for view, point in points:
        label = view.result.model.name if many and view.result else name(view)
        groups.setdefault(label, []).append((view, point))
    for index, (label, members) in enumerate(groups.items()):
        symbols = ["circle" if view.valid else "x" for view, _ in members]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label,
                "x": [intensity for _, (intensity, _) in members],
                "y": [gflops for _, (_, gflops) in members],
                "text": [view.label for view, _ in members],
                "marker": {"size": 10, "color": colour(index), "symbol": symbols},
                "hovertemplate": "%{x:.3g} FLOP/byte, %{y:.3g} GFLOP/s<extra>%{text}</extra>",
            }
        )
    return chart(
        data,
        title=f"Roofline ({precision})",
        xaxis=axis("operational intensity, FLOP per byte (log)", log=True),
        yaxis=axis("attained, GFLOP/s (log)", log=True),
    )


def origin(measured: Ceilings, threads: int) -> str:
    """How the measured ceiling was got: a bandwidth is worth what its arrays were larger than the caches."""
    if not measured.array_bytes:
        return f"measured, {threads} core(s)"
    times = f"{measured.array_bytes / measured.cache_bytes:.3g} times" if measured.cache_bytes else "unknown"
    return f"measured, {threads} core(s), arrays of {measured.array_bytes / 1e6:,.0f} MB (last-level caches: {times})"


def ceiling(x: Any, gflops: float, gb_s: float, label: str, dash: str) -> dict[str, Any]:
    """The line that no point lies above, at the intensities ``x``."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{label}: {gflops:.3g} GFLOP/s, {gb_s:.3g} GB/s",
        "x": x.tolist(),
        "y": np.minimum(gflops, x * gb_s).tolist(),
        "line": {"color": "#B00020", "dash": dash, "width": 2},
        "hoverinfo": "skip",
    }
