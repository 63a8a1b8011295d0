"""A load's percentiles while nothing disturbed the machine, beside those of the whole; they decide nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES

#: The whole's figure and the quiet windows' of the same percentile.
PAIRS = tuple((name, f"quiet_{name}") for name in ("p50_ms", "p95_ms", "p99_ms"))
NOTE = (
    "Quiet windows: without the time in which the machine was disturbed, by its own recording alone, and until the "
    "backlog was what it was before. The verdict, rankings and objectives are of the whole."
)


def quiet_table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """A row a percentile: both with 95% intervals, how much was kept, and what was cut; [] where nothing was."""
    rows = []
    for view in views:
        block = view.figure("quiet") or {}
        if block.get("time_ratio") is None or (block["time_ratio"] == 1.0 and not block["reason"]):
            continue
        reasons = _reasons(block)
        causes = sorted(block["cut_s"].items(), key=lambda cause: -cause[1])
        cut = ", ".join(f"{cause} {number(seconds)} s" for cause, seconds in causes)
        first = [view.label, _kept(block), "; ".join(filter(None, (cut, block["reason"]))) or "–"]
        for whole, quiet in PAIRS:
            percentile = whole.removesuffix("_ms")
            why = reasons.get(percentile, "")
            rows.append([*first, percentile, _cell(view, whole), _cell(view, quiet), why])
            first = ["", "", ""]
    head = ["run", "kept of time (requests)", "cut", "percentile", "of the whole, ms", "in quiet windows, ms"]
    table = {
        "title": "In quiet windows and in the whole", "head": [*head, "missing because"], "rows": rows,
        "numbers": [4, 5], "note": NOTE,
    }  # fmt: skip
    return [table] if rows else []


def quiet_sentence(view: RunView) -> str | None:
    """What can still be said of a disturbed run, in a sentence; None where nothing was recorded of it."""
    block = view.figure("quiet") or {}
    if not view.bounds_only or not block:
        return None
    values = [
        (FIGURES[name], _cell(view, name)) for _, name in PAIRS if view.value(FIGURES[name]) is not None
    ]
    if not values:
        return f"no quiet windows: {_why_not(block)}" if _why_not(block) else None
    texts = ", ".join(f"{figure.name.split('_')[1]} {cell} ms" for figure, cell in values)
    kept = f"{block['time_ratio']:.0%} of the time, {block['request_ratio'] or 0:.0%} of the requests"
    return f"in its quiet windows ({kept}): {texts}; they do not rank"


def _kept(block: dict[str, Any]) -> str:
    requests = block["request_ratio"]
    return f"{block['time_ratio']:.0%}" + (f" ({requests:.0%})" if requests is not None else "")


def _cell(view: RunView, name: str) -> str:
    figure = FIGURES[name]
    value = view.value(figure)
    if value is None:
        return "–"
    bounds = figure.interval_in(view.summary)
    sign = figure.bound_sign if view.bounds_only else ""
    return sign + number(value) + (f" [{number(bounds[0])}, {number(bounds[1])}]" if bounds else "")


def _why_not(block: dict[str, Any]) -> str:
    """Why quiet percentiles are missing that are shown."""
    return block["reason"] or "; ".join(f"{name}: {reason}" for name, reason in _reasons(block).items())


def _reasons(block: dict[str, Any]) -> dict[str, str]:
    """Percentile -> why it is missing, of those that are shown; {} where none is, or all for one reason."""
    values = block["latency_ms"] or {}
    names = [whole.removesuffix("_ms") for whole, _ in PAIRS]
    reasons = values.get("reasons") or {}
    return {name: reasons[name] for name in names if name in reasons and values.get(name) is None}
