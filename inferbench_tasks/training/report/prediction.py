"""The step that the model of a run's pipeline predicts over the number of loader processes, beside the measured one."""

from __future__ import annotations

import math
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart, axis, chart, line
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.pipeline import MOST_WORKERS
from inferbench_tasks.training.report.views import TrainingView

#: So many loader processes beyond those that are enough are drawn.
_BEYOND = 3


def by_workers(view: TrainingView, run: Observation | None) -> Chart | None:
    """On the run's cores and with a core for each thread and loader process; None of a run that does not count, or that
    makes no batches, or where the time of a hand-over is not known.
    """
    pipeline = run.pipeline if run is not None and view.valid else None
    if run is None or pipeline is None or pipeline.hand_over_ms is None:
        return None
    most = min(MOST_WORKERS, max(pipeline.workers, pipeline.unbounded.workers, 4) + _BEYOND)
    numbers = list(range(most + 1))
    curves = {
        f"predicted, on its {run.cores:g} core(s)": [pipeline.of(workers=n).step_ms for n in numbers],
        "predicted, with a core for each thread and loader process": [
            pipeline.of(workers=n, cores=math.inf).step_ms for n in numbers
        ],
    }
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": numbers,
            "y": steps_ms,
            "line": line(index) | {"dash": "dash"},
            "hovertemplate": "%{x} loader process(es): %{y:.3f} ms<extra></extra>",
        }
        for index, (name, steps_ms) in enumerate(curves.items())
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "measured",
            "x": [pipeline.workers],
            "y": [run.step_ms],
            "marker": {"size": 12, "symbol": "diamond", "color": "#009E73"},
            "hovertemplate": "measured, %{x} loader process(es): %{y:.3f} ms<extra></extra>",
        }
    )
    return chart(
        data,
        title=f"{view.label}: the step over loader processes, by a model of its pipeline",
        xaxis=axis("loader processes of each rank", dtick=1 if most <= 10 else 2),
        yaxis=axis("step, ms", rangemode="tozero"),
    )
