"""A run's steps one after the other, as pictures: its phases, its ranks, and a stretch of its loader processes'
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.charts.style import PALETTE, Chart, axis, chart, line, rows_height, text
from inferbench_tasks.training.diagnosis.observation import Steps, of_result
from inferbench_tasks.training.diagnosis.thread_times import (
    blocked_ns,
    shared_ns,
    statistics_timed,
    unblocked_phases,
)
from inferbench_tasks.training.report.views import PHASES, TrainingView
from inferbench_tasks.training.sending import MADE

PHASE_COLOURS = dict(zip(PHASES, PALETTE, strict=True))
#: More points than this are drawn as means of neighbouring steps.
MOST_POINTS = 300
#: Ranks with a line of their own.
_MOST_RANKS = 8
#: Steps of the picture of the loader processes.
TIMELINE_STEPS = 24
_PART_COLOURS = dict(zip(MADE, ("#56B4E9", "#E69F00", "#009E73", "#CC79A7"), strict=True))


def phases(view: TrainingView, ranks: Sequence[Steps]) -> Chart | None:
    """Wall time of each phase over the measured steps, mean of the ranks, stacked; None without raw steps."""
    names = [name for name in PHASES if ranks and all(f"{name}_wall_ns" in steps for steps in ranks)]
    count = min((len(steps["step"]) for steps in ranks), default=0)
    if not names or count < 2:
        return None
    data = []
    for name in names:
        values_ms = np.mean([steps[f"{name}_wall_ns"][:count] for steps in ranks], axis=0) / 1e6
        at, means = thinned(values_ms)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "stackgroup": "phases",
                "name": name.replace("_", " "),
                "x": at,
                "y": means,
                "line": {"width": 0.5, "color": PHASE_COLOURS[name]},
                "fillcolor": PHASE_COLOURS[name],
                "hovertemplate": "step %{x}: %{y:.3f} ms<extra>" + name.replace("_", " ") + "</extra>",
            }
        )
    return chart(
        data,
        title=f"{view.label}: the phases of each step",
        xaxis=axis("measured step, over all rounds"),
        yaxis=axis("ms", rangemode="tozero"),
        shapes=_borders(ranks[0], count),
    )


def ranks(view: TrainingView, of_ranks: Sequence[Steps]) -> Chart | None:
    """Each rank's step without what it was blocked where it waits for the others and for the exchange: in backward, in
    gathering answers, and in a forward pass that begins with the exchange of running statistics.

    None of one rank. A straggler is the line above the others.
    """
    count = min((len(steps["step"]) for steps in of_ranks), default=0)
    if len(of_ranks) < 2 or count < 2:
        return None
    run = of_result(view.result, of_ranks)
    shared = run is not None and "forward" not in unblocked_phases(run)
    waits = ("backward", "gather", *(("forward",) if shared else ()))
    data = []
    for rank, steps in enumerate(of_ranks[:_MOST_RANKS]):
        values_ns = steps["step_ns"][:count]
        for phase in waits:
            if f"{phase}_wall_ns" in steps:
                values_ns = values_ns - blocked_ns(steps, phase)[:count]
        if statistics_timed(steps):
            values_ns = values_ns - shared_ns(steps)[:count]
        at, means = thinned(values_ns / 1e6)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"rank {rank}",
                "x": at,
                "y": means,
                "line": line(rank),
                "hovertemplate": f"rank {rank}, step %{{x}}: %{{y:.3f}} ms<extra></extra>",
            }
        )
    of = f" (the first {_MOST_RANKS} of {len(of_ranks)})" if len(of_ranks) > _MOST_RANKS else ""
    return chart(
        data,
        title=f"{view.label}: each rank's step without waiting for the others{of}",
        xaxis=axis("measured step, over all rounds"),
        yaxis=axis("ms", rangemode="tozero"),
        shapes=_borders(of_ranks[0], count),
    )


def thinned(values: NDArray[np.float64]) -> tuple[list[int], list[float]]:
    """Where groups of neighbouring steps begin, and their means: at most ``MOST_POINTS``."""
    width = -(-len(values) // MOST_POINTS)
    at = list(range(0, len(values), width))
    return at, [float(values[begin : begin + width].mean()) for begin in at]


def workers(view: TrainingView, of_ranks: Sequence[Steps], count: int) -> Chart | None:
    """What rank 0 and its ``count`` loader processes did over some steps of its last round, ms since the first of them.

    A batch's parts are sums over its items, drawn one after the other up to the moment of its end: which item was read
    when is not kept. None without loader processes, or without their times.
    """
    if not count or not of_ranks:
        return None
    steps = _last_steps(of_ranks[0])
    needed = ("loading_start_ns", "loading_wall_ns", *(f"{part}_ns" for part in (*MADE, "queued")))
    if steps is None or any(name not in steps or np.isnan(steps[name]).any() for name in needed):
        return None
    names = ["rank 0", *(f"loader {number}" for number in range(count))]
    zero_ns = steps["step_start_ns"][0]
    bars: dict[str, list[tuple[str, float, float, int]]] = {}

    def add(row: str, kind: str, start_ns: float, length_ns: float, step: int) -> None:
        bars.setdefault(kind, []).append((row, (start_ns - zero_ns) / 1e6, length_ns / 1e6, step))

    for index, step in enumerate(steps["step"].astype(int)):
        start_ns, wall_ns = steps["loading_start_ns"][index], steps["loading_wall_ns"][index]
        add("rank 0", "loading", start_ns, wall_ns, step)
        after_ns = start_ns + wall_ns
        rest_ns = steps["step_start_ns"][index] + steps["step_ns"][index] - after_ns
        add("rank 0", "the rest of its step", after_ns, rest_ns, step)
        # torch hands batches out to its processes in turns: that of the epoch's first step is the first one's.
        row = names[1 + step % count]
        at_ns = after_ns - steps["queued_ns"][index]
        for part in reversed(MADE):
            length_ns = steps[f"{part}_ns"][index]
            at_ns -= length_ns
            add(row, part, at_ns, length_ns, step)
    colours = {"loading": PHASE_COLOURS["loading"], "the rest of its step": "#BBBBBB", **_PART_COLOURS}
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": [row for row, *_ in of],
            "base": [start for _, start, _, _ in of],
            "x": [length for _, _, length, _ in of],
            "customdata": [step for *_, step in of],
            "marker": {"color": colours[kind], "line": {"color": "white", "width": 0.5}},
            "hovertemplate": f"step %{{customdata}}, {kind}: %{{x:.3f}} ms<extra></extra>",
        }
        for kind, of in bars.items()
    ]
    return chart(
        data,
        title=f"{view.label}: its loader processes beside rank 0, {len(steps['step'])} steps of the last round",
        xaxis=axis("ms"),
        yaxis=axis(
            "",
            type="category",
            categoryorder="array",
            categoryarray=[text(name) for name in reversed(names)],
        ),
        barmode="overlay",
        height=rows_height(names, 190),
    )


def _last_steps(steps: Steps) -> Steps | None:
    """The first measured steps of the last round."""
    if "round" not in steps or not len(steps["round"]):
        return None
    chosen = np.flatnonzero(steps["round"] == steps["round"].max())[:TIMELINE_STEPS]
    return {name: values[chosen] for name, values in steps.items()}


def _borders(steps: Steps, count: int) -> list[dict[str, Any]]:
    """A line where a round begins."""
    if "round" not in steps:
        return []
    at = np.flatnonzero(np.diff(steps["round"][:count])) + 1
    look = {"color": "#888888", "width": 1, "dash": "dot"}
    return [
        {"type": "line", "x0": int(x), "x1": int(x), "y0": 0, "y1": 1, "yref": "paper", "line": look}
        for x in at
    ]
