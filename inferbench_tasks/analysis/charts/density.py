"""The density of the latency: where most requests lie, and whether they have more than one mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.analysis.charts.latency import curve_name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, chart, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from inferbench_tasks.analysis.report.runs import RunView

_POINTS = 512


def density(views: Sequence[RunView]) -> Chart | None:
    """A kernel density estimate over the logarithm of the latency, per run."""
    data: list[dict[str, Any]] = []
    for index, view in enumerate(views[:MAX_RUNS]):
        values = None if view.problem else view.latencies_ms
        if values is None or len(values) < 20 or values[0] <= 0 or values[0] == values[-1]:
            continue
        x, y = log_kde(values)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": curve_name(view),
                "x": x.tolist(),
                "y": y.tolist(),
                "line": line(index),
                "opacity": 1 if view.valid else 0.45,
                "fill": "tozeroy" if len(views) == 1 else "none",
                "hovertemplate": "%{x:.3f} ms<extra>%{fullData.name}</extra>",
            }
        )
    if not data:
        return None
    return chart(
        data,
        title="Latency, density (KDE)",
        xaxis=axis("end-to-end latency, ms (log)", log=True),
        yaxis=axis("density over ln(latency)", rangemode="tozero"),
    )


def log_kde(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Points (ms) and density of ln(latency): Gaussian kernels of Silverman's width, over a fine histogram."""
    logs = np.log(values)
    quartiles = np.quantile(logs, [0.25, 0.75])
    spread = min(float(logs.std()), float(quartiles[1] - quartiles[0]) / 1.34) or float(logs.std())
    width = 0.9 * spread * len(logs) ** -0.2
    low, high = logs[0] - 3 * width, logs[-1] + 3 * width
    counts, edges = np.histogram(logs, bins=_POINTS, range=(low, high))
    step = (high - low) / _POINTS
    reach = min(_POINTS - 1, int(4 * width / step) + 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="full")[reach : reach + _POINTS]
    return np.exp((edges[:-1] + edges[1:]) / 2), smooth / len(logs) / step
