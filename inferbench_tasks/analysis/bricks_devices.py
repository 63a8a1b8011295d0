"""What a study of bricks knows of devices, as pictures: DLBricks' Figures 3 and 9 to 12."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import MAX_RUNS, PALETTE, Chart, axis, chart, line, text

_ROW_PX = 20
#: Figure 10 has these granularities; the table has all.
_MOST_GRANULARITY = 6
_SYMBOLS = ("circle", "diamond", "square", "x", "cross", "triangle-up")
Device = Mapping[str, Any]


def charts(devices: Sequence[Device]) -> tuple[dict[str, Chart], list[dict[str, Chart]]]:
    """(Of all devices together, of each), by names of their own; what there is nothing of is left out."""
    overview = {
        "device_means": by_granularity(
            devices,
            "geometric_mean",
            "Constructed over end-to-end, geometric mean",
            "over the end-to-end time",
        ),
        "device_speedups": by_granularity(
            devices, "speedup_ratio", "Speed-up as the paper counts", "speed-up"
        ),
    }
    each = [
        {f"end_to_end_{at}": end_to_end(one), f"sums_{at}": sums(one), f"constructed_{at}": constructed(one)}
        for at, one in enumerate(devices)
    ]
    return _there(overview), [_there(drawn) for drawn in each]


def label(device: Device) -> str:
    """A device with what its times hold for."""
    return f"{device['device']}, {device['runtime']}, threads {device['threads']}"


def by_granularity(devices: Sequence[Device], figure: str, title: str, unit: str) -> Chart | None:
    """Figures 11 and 12: a figure of all models by granularity, a line for each device."""
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": text(label(one)), "line": line(at),
            "x": [row["granularity"] for row in one["granularities"]],
            "y": [row[figure] for row in one["granularities"]],
            "text": [f"{row['architectures']} architectures" for row in one["granularities"]],
            "hovertemplate": "G %{x}: %{y:.3f}, %{text}<extra></extra>",
        }
        for at, one in enumerate(devices[:MAX_RUNS])
        if one["granularities"]
    ]  # fmt: skip
    if not data:
        return None
    order = list(dict.fromkeys(name for trace in data for name in trace["x"]))
    order.sort(key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0))
    return chart(
        data, title=title, yaxis=axis(unit), showlegend=True,
        xaxis=axis("layers of a brick at most (G)", type="category", categoryorder="array", categoryarray=order),
    )  # fmt: skip


def end_to_end(device: Device) -> Chart | None:
    """Figure 9: each model's own time."""
    rows = device["models"]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "y": [text(row["model"]) for row in rows],
        "x": [row["end_to_end_ms"] for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row["end_to_end_interval_ms"][1] - row["end_to_end_ms"] for row in rows],
            "arrayminus": [row["end_to_end_ms"] - row["end_to_end_interval_ms"][0] for row in rows],
        },
        "marker": {"color": PALETTE[0], "size": 8},
        "hovertemplate": "%{y}: %{x:.4g} ms<extra></extra>",
    }
    return _models([trace], "End-to-end time", axis("ms", log=True), rows, legend=False)


def sums(device: Device) -> Chart | None:
    """Figure 3: at the finest granularity the sum of the bricks' times, and their critical path, both warm."""
    rows = [row for row in device["models"] if row["constructed"]]
    kinds = (("sum of warm times", "warm_ratio"), ("critical path, warm", "parallel_ratio"))
    data = [
        _dots(name, rows, [row["constructed"][0][ratio] for row in rows], at)
        for at, (name, ratio) in enumerate(kinds)
    ]
    return _models(data, "Sums and critical paths over end-to-end", _over(), rows)


def constructed(device: Device) -> Chart | None:
    """Figure 10: what is constructed, at each granularity."""
    rows = [row for row in device["models"] if row["constructed"]]
    names = [str(number) for number in range(1, _MOST_GRANULARITY + 1)]
    data: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        values = [_at(row, name) for row in rows]
        if any(value is not None for value in values):
            data.append(_dots(f"G {name}", rows, values, at))
    return _models(data, "Constructed over end-to-end, by granularity", _over(), rows)


def _at(row: Mapping[str, Any], granularity: str) -> float | None:
    of = {one["granularity"]: one["constructed_ratio"] for one in row["constructed"]}
    found: float | None = of.get(granularity)
    return found


def _over() -> dict[str, Any]:
    return axis("over the end-to-end time")


def _dots(name: str, rows: Sequence[Mapping[str, Any]], values: list[Any], at: int) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "y": [text(row["model"]) for row in rows], "x": values,
        "marker": {"color": PALETTE[at], "size": 8, "symbol": _SYMBOLS[at]},
        "hovertemplate": "%{y}, " + name + ": %{x:.3f}<extra></extra>",
    }  # fmt: skip


def _models(
    data: list[dict[str, Any]], title: str, xaxis: dict[str, Any], rows: Sequence[Any], legend: bool = True
) -> Chart | None:
    if not rows or not data:
        return None
    return chart(
        data, title=title, height=220 + _ROW_PX * len(rows), showlegend=legend, xaxis=xaxis,
        yaxis=axis("", type="category", autorange="reversed", dtick=1),
    )  # fmt: skip


def _there(drawn: Mapping[str, Chart | None]) -> dict[str, Chart]:
    return {name: one for name, one in drawn.items() if one is not None}
