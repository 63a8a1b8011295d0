"""What a study of bricks knows of devices, as pictures: DLBricks' Figures 3 and 9 to 12."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import MAX_RUNS, PALETTE, Chart, axis, chart, line, text

_ROW_PX = 20
#: Figure 10 has these granularities; the table has all.
_MOST_GRANULARITY = 6
_SYMBOLS = ("circle", "diamond", "square", "x", "cross", "triangle-up")
#: Figures 11 and 12 are drawn for so many sets of models.
_MOST_SETS = 4
Device = Mapping[str, Any]
#: The models that a figure is of, by name.
Models = tuple[str, ...]


def charts(devices: Sequence[Device]) -> tuple[dict[str, Chart], list[dict[str, Chart]]]:
    """(Of all devices together, of each), by names of their own; what there is nothing of is left out."""
    overview: dict[str, Chart | None] = {}
    for at, models in enumerate(sets(devices)[:_MOST_SETS], 1):
        overview[f"device_means_{at}"] = by_granularity(
            devices, models, "geometric_mean", f"Set {at}: constructed over end-to-end, geometric mean",
            "over the end-to-end time",
        )  # fmt: skip
        overview[f"device_speedups_{at}"] = by_granularity(
            devices, models, "speedup_ratio", f"Set {at}: speed-up as the paper counts", "speed-up"
        )
    each = [
        {f"end_to_end_{at}": end_to_end(one), f"sums_{at}": sums(one), f"constructed_{at}": constructed(one)}
        for at, one in enumerate(devices)
    ]
    return _there(overview), [_there(drawn) for drawn in each]


def label(device: Device) -> str:
    """A device with what its times hold for."""
    return (
        f"{device['device']} ({device['instruction_set']}), {device['runtime']}, "
        f"{device['cores']} core(s), threads {device['threads']}"
    )


def sets(devices: Sequence[Device]) -> list[Models]:
    """The sets of models that figures of devices and granularities are of: that of most figures first, then the larger.

    Figures of different sets say nothing of devices or granularities.
    """
    count = Counter(tuple(row["models"]) for one in devices for row in one["granularities"])
    return sorted(count, key=lambda models: (-count[models], -len(models), models))


def numbers(devices: Sequence[Device]) -> list[list[int]]:
    """Of each granularity of each device the number of its set, from 1."""
    number = {models: at for at, models in enumerate(sets(devices), 1)}
    return [[number[tuple(row["models"])] for row in one["granularities"]] for one in devices]


def described_sets(devices: Sequence[Device]) -> list[str]:
    """What the numbers of the sets stand for, and what is not drawn of them."""
    lines = []
    for at, models in enumerate(sets(devices), 1):
        having = sum(any(tuple(row["models"]) == models for row in one["granularities"]) for one in devices)
        less = f"; drawn are the newest {MAX_RUNS} of {having} settings" if having > MAX_RUNS else ""
        less = less if at <= _MOST_SETS else "; not drawn"
        lines.append(f"Set {at}, {len(models)} architecture(s){less}: {', '.join(models)}")
    return lines


def by_granularity(
    devices: Sequence[Device], models: Models, figure: str, title: str, unit: str
) -> Chart | None:
    """Figures 11 and 12: a figure of the same models by granularity, a line for each device that has it."""
    rows = [(one, [row for row in one["granularities"] if tuple(row["models"]) == models]) for one in devices]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": text(label(one)), "line": line(at),
            "x": [row["granularity"] for row in of_models],
            "y": [row[figure] for row in of_models],
            "hovertemplate": "G %{x}: %{y:.3f}<extra></extra>",
        }
        for at, (one, of_models) in enumerate([(one, found) for one, found in rows if found][:MAX_RUNS])
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
