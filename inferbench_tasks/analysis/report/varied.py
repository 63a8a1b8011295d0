"""What each change of the pre-processing did to right answers and to time: one table of all runs that varied it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.evaluations.varied import rows
from inferbench_tasks.analysis.report.measure_words import HEADS, measure_text
from inferbench_tasks.analysis.report.runs import RunView

Table = dict[str, Any]
_HEAD = ["points (95%)", "p", "answered otherwise", "other inputs", "pre-processing, ms a sample"]
_NOTE = (
    "One step is changed at a time, and every sample asked once more on the same server, as the plain ones were. "
    "Differences are of the same samples in pairs: Bonett and Price's interval, McNemar's exact p corrected for the "
    "number of variants of a run (Benjamini and Hochberg). Where no input is another, the step does nothing to these "
    "samples. Pre-processing is the median CPU time of a sample, all threads, one sample at a time"
)


def tables(views: Sequence[RunView]) -> list[Table]:
    """A row for each variant of each of these runs, which are evaluated ones; none where nothing was varied."""
    varied = [view for view in views if view.evaluation.get("varied")]
    if not varied:
        return []
    measures = list(dict.fromkeys(view.evaluation["varied"]["measure"] for view in varied))
    several = len(views) > 1
    found = [
        [*([view.label] if several else []), *_cells(row, measures)]
        for view in varied
        for row in rows(view.evaluation)
    ]
    places = " and ".join(dict.fromkeys(view.evaluation["varied"]["processor"] for view in varied))
    head = [
        *(["run"] if several else []),
        "pre-processing",
        *(HEADS.get(name, name) for name in measures),
        *_HEAD,
    ]
    note = f"{_NOTE}, where the samples were made: {places}."
    return [{"title": "What the pre-processing changes", "head": head, "rows": found, "note": note}]


def _cells(row: dict[str, Any], measures: Sequence[str]) -> list[str]:
    quality = None if row["value"] is None else {"value": row["value"], "ci95": row["ci95"]}
    shown = row["withheld"] or measure_text(row["measure"], quality)
    return [
        row["variant"],
        *(shown if name == row["measure"] else "–" for name in measures),
        _points(row),
        "–" if row["p_value"] is None else f"{row['p_value']:.2g}",
        *("–" if row[name] is None else f"{row[name]:,}" for name in ("answers_changed", "inputs_changed")),
        f"{row['preprocess_ms']:.3g}",
    ]


def _points(row: dict[str, Any]) -> str:
    if row["difference"] is None:
        return "–"
    value, low, high = (100 * each for each in (row["difference"], *row["difference_ci95"]))
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"
