"""Where the time of a step goes, as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import (
    MAX_RUNS,
    Chart,
    axis,
    by_run,
    chart,
    line,
    rows_height,
    text,
)
from inferbench_tasks.training.report.course import PHASE_COLOURS
from inferbench_tasks.training.report.views import PHASES, TrainingView, own_wait_ms

_REST, _CLOCKS = "#CCCCCC", "#999999"
_KINDS = (("CPU", "#0072B2"), ("waiting for a core", "#D55E00"), ("waiting for something else", "#CCCCCC"))
#: More points than this are drawn as means of neighbouring steps.
_POINTS = 600


def phases(views: Sequence[TrainingView]) -> Chart | None:
    """Mean wall time of each phase, a bar for each run, with what no phase explains."""
    timed = [view for view in views if view.timing][:MAX_RUNS]
    if not timed:
        return None
    labels = [_label(view) for view in timed]
    rows = {name: [_wall_ms(view, name) for view in timed] for name in PHASES}
    data = [
        _bar(name.replace("_", " "), values, labels, PHASE_COLOURS[name])
        for name, values in rows.items()
        if any(values)
    ]
    clocks = [view.timing.get("clocks_ms") or 0.0 for view in timed if view.timing]
    rest = [view.timing["unexplained_ms"] for view in timed if view.timing]
    if any(clocks):  # of runs from before it was told apart it is part of the rest
        data.append(_bar("reading the clocks", clocks, labels, _CLOCKS))
    between = [max(0.0, all_ms - ms) for all_ms, ms in zip(rest, clocks, strict=True)]
    data.append(_bar("between the phases", between, labels, _REST))
    return _stacked(data, "Where the time of a step goes (mean of ranks and steps)", "ms per step", labels)


def cores(view: TrainingView) -> Chart | None:
    """Each phase's wall time as CPU time, wait for a core, and what is left, of the thread that runs the step: what
    others exchange beside it is no part of its time.

    None with several threads in a process: of older results their times are sums, and may exceed the wall time.
    """
    timing = view.timing
    if timing is None or view.threads != 1:
        return None
    names = [name for name in PHASES if name in timing["phases"]]
    of = [timing["phases"][name] for name in names]
    wait = [own for phase in of if (own := own_wait_ms(phase)) is not None]
    if len(wait) < len(of):
        return None
    cpu = [_own_cpu_ms(phase) for phase in of]
    rest = [max(0.0, phase["wall_ms"]["mean"] - a - b) for phase, a, b in zip(of, cpu, wait, strict=True)]
    labels = [name.replace("_", " ") for name in names]
    data = [
        _bar(name, values, labels, colour)
        for (name, colour), values in zip(_KINDS, (cpu, wait, rest), strict=True)
    ]
    return _stacked(data, f"{view.label}: what each phase waits for", "ms per step", labels)


def ranks(view: TrainingView) -> Chart | None:
    """The phases of each rank; None of one process. Who waits least in backward is the one others wait for."""
    timing = view.timing
    if timing is None or len(timing["ranks"]) < 2:
        return None
    labels = [f"rank {rank['rank']}" for rank in timing["ranks"]]
    data = [
        _bar(
            name.replace("_", " "),
            [rank["phases"].get(name, {}).get("wall_ms") for rank in timing["ranks"]],
            labels,
            PHASE_COLOURS[name],
        )
        for name in PHASES
        if name in timing["phases"]
    ]
    return _stacked(data, f"{view.label}: the phases of each rank", "ms per step", labels)


def course(series: Sequence[tuple[TrainingView, Sequence[float]]]) -> Chart | None:
    """The time of one step after the other, ms; warm-up and last batches are left out."""
    if not series:
        return None
    data = []
    for index, (view, steps_ms) in enumerate(series[:MAX_RUNS]):
        width = -(-len(steps_ms) // _POINTS)
        means = [
            sum(part) / len(part)
            for at in range(0, len(steps_ms), width)
            if (part := steps_ms[at : at + width])
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": text(_label(view)),
                "x": [at * width for at in range(len(means))],
                "y": means,
                "line": line(index),
                "hovertemplate": "step %{x}: %{y:.3f} ms<extra></extra>",
            }
        )
    return chart(
        data,
        title="Steps one after the other, over all rounds",
        xaxis=axis("measured step"),
        yaxis=axis("time of the step, ms", rangemode="tozero"),
    )


def _label(view: TrainingView) -> str:
    return view.label if view.valid else f"{view.label} — {view.state}"


def _own_cpu_ms(phase: Mapping[str, Any]) -> float:
    """Of older results that of all threads."""
    own: float | None = phase.get("own_cpu_ms")
    return float(phase["cpu_ms"]) if own is None else own


def _wall_ms(view: TrainingView, phase: str) -> float | None:
    assert view.timing is not None
    of = view.timing["phases"].get(phase)
    return of["wall_ms"]["mean"] if of else None


def _bar(name: str, values: Sequence[float | None], labels: Sequence[str], colour: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [text(label) for label in labels],
        "x": list(values),
        "marker": {"color": colour},
        "hovertemplate": f"{name}: %{{x:.3f}} ms<extra></extra>",
    }


def _stacked(data: list[dict[str, Any]], title: str, unit: str, labels: Sequence[str]) -> Chart:
    return chart(
        data,
        title=title,
        xaxis=axis(unit, rangemode="tozero"),
        yaxis=by_run(labels),
        barmode="stack",
        legend={
            "orientation": "h",
            "yref": "container",
            "yanchor": "bottom",
            "y": 0,
            "x": 0,
            "traceorder": "normal",
        },
        height=rows_height(labels, 170),
    )
