"""The page of a study of many models on several stacks: the table, and which stack is sooner, over all models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from inferbench_tasks.analysis.charts.style import Chart, axis, chart, colour, text
from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.systems.study import Entry

Row = dict[str, Any]
#: What rows of two stacks have to have alike: the same content, asked the same, by as many threads.
ALIKE = (
    "model",
    "model_version",
    "model_apart",
    "precision",
    "threads",
    "instances",
    "cores",
    "prompts",
    "inputs",
)
#: A mean ratio over fewer models has no interval.
FEWEST_MODELS = 3


@dataclass(frozen=True)
class Faster:
    """One stack by another over the models that both have. ``ratio``: geometric mean of first / second trimmed mean
    latency; ``low``, ``high``: its 95% interval, Student's over the models' logarithms; None of fewer than three.
    """

    first: str
    second: str
    models: int
    ratio: float
    low: float | None
    high: float | None


def marked(rows: Sequence[Row], runs: Set[str]) -> list[Row]:
    """The rows with ``of_this_study``: whether these runs measured the speed that they tell of. PerfDB may have others
    of these models: of other devices, with other settings, of months ago.
    """
    return [{**row, "of_this_study": _of(row, runs)} for row in rows]


def _of(row: Row, runs: Set[str]) -> bool:
    speed = {row["online_run"], row["best_run"]} - {None}
    return bool(speed) and speed <= runs


def stack_of(row: Row) -> str:
    """By which name a row's stack and system stand on the page."""
    return f"{row['backend']} {row['version']}" if row["version"] else str(row["backend"])


def stacks_of(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(device, stack) of the table's columns, those with most models first."""
    count: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (str(row["device"]), stack_of(row))
        count[key] = count.get(key, 0) + 1
    return sorted(count, key=lambda key: (key[0], -count[key], key[1]))


def ratios(rows: Sequence[Row]) -> list[Faster]:
    """Each pair of stacks of one device, over the models that both served alone in this study, one sample at a time."""
    found = []
    online = [row for row in rows if row["of_this_study"] and row["trimmed_mean_ms"]]
    columns = stacks_of(online)
    for at, (device, first) in enumerate(columns):
        mine = _by_model(online, device, first)
        for other, second in columns[at + 1 :]:
            if other != device:
                continue
            theirs = _by_model(online, device, second)
            logs = [math.log(mine[model] / theirs[model]) for model in mine if model in theirs]
            if logs:
                found.append(_faster(first, second, logs))
    return found


def _by_model(rows: Sequence[Row], device: str, stack: str) -> dict[tuple[Any, ...], float]:
    """Model -> latency, of rows that are alike but for the stack; the first row of each, as the table has them."""
    found: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if str(row["device"]) == device and stack_of(row) == stack:
            found.setdefault(tuple(row[name] for name in ALIKE), row["trimmed_mean_ms"])
    return found


def _faster(first: str, second: str, logs: Sequence[float]) -> Faster:
    mean, count = float(np.mean(logs)), len(logs)
    if count < FEWEST_MODELS:
        return Faster(first, second, count, math.exp(mean), None, None)
    half = float(stats.t.ppf(0.975, count - 1) * np.std(logs, ddof=1) / math.sqrt(count))
    return Faster(first, second, count, math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def in_words(rows: Sequence[Row], entries: Sequence[Entry], measured: Set[str]) -> str:
    """How much was measured (``measured``: the models of which a run of this study counts), and which stack is sooner
    over all models, where the interval says so.
    """
    named = sum(len(entry.paper) for entry in entries if entry.model in measured)
    own = [row for row in rows if row["of_this_study"]]
    texts = [
        f"{len(measured)} of {len(entries)} models measured, which stand for {named} of MLModelScope's 37, on "
        f"{len(stacks_of(own))} stacks."
    ]
    if others := {row["model"] for row in rows if not row["of_this_study"]}:
        texts.append(
            f"Of {len(others)} models there are rows of other runs too (other devices or settings, or older ones): "
            "they are marked, and in no comparison."
        )
    for pair in ratios(rows):
        if pair.low is None or pair.high is None:
            continue
        verdict = "sooner than" if pair.high < 1 else "later than" if pair.low > 1 else "not told apart from"
        texts.append(
            f"{pair.first} is {verdict} {pair.second}: {pair.ratio:.2f} times its latency "
            f"({pair.low:.2f} to {pair.high:.2f}, over {pair.models} models)."
        )
    return " ".join(texts)


def picture(rows: Sequence[Row]) -> Chart | None:
    """Throughput over latency, a point for each model of this study, a colour for each stack."""
    data = []
    for index, (device, stack) in enumerate(stacks_of(rows)):
        own = [
            row
            for row in rows
            if (str(row["device"]), stack_of(row)) == (device, stack)
            and row["of_this_study"]
            and row["trimmed_mean_ms"]
            and row["throughput_samples_per_s"]
        ]
        if own:
            data.append(
                {
                    "type": "scatter", "mode": "markers", "name": text(stack),
                    "x": [row["trimmed_mean_ms"] for row in own],
                    "y": [row["throughput_samples_per_s"] for row in own],
                    "text": [text(f"{row['model']} on {device}, batch {row['batch_size']}") for row in own],
                    "marker": {"color": colour(index), "size": 8},
                    "hovertemplate": "%{text}<br>%{x:.3g} ms, %{y:.3g} samples/s<extra>%{fullData.name}</extra>",
                }
            )  # fmt: skip
    if not data:
        return None
    return chart(
        data,
        title="Each model's best throughput in batches over its latency alone",
        xaxis=axis("trimmed mean latency of one sample, ms (log)", log=True),
        yaxis=axis("largest throughput, samples/s (log)", log=True),
    )


def make_page(
    path: Path,
    rows: Sequence[Row],
    entries: Sequence[Entry],
    troubled: Sequence[tuple[str, str]],
    reports: Mapping[str, str | None],
    measured: Set[str],
) -> str:
    """Write it; what it says, in words. ``rows``: ``marked``. ``troubled``: (what, why) of what is not in the table;
    ``reports``: model -> the path of its runs' own report; ``measured``: see ``in_words``.
    """
    words = in_words(rows, entries, measured)
    columns = stacks_of(rows)
    cells: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in rows:
        cells.setdefault(row["model"], {}).setdefault((str(row["device"]), stack_of(row)), []).append(row)
    drawn = picture(rows)
    html = page.render(
        "models.html", title="Models by system", words=words, columns=columns, cells=cells,
        entries=[entry for entry in entries if entry.model in cells], troubled=troubled,
        pairs=ratios(rows), charts={"c0": drawn} if drawn else {},
        reports=[(model, report) for model, report in reports.items() if report],
    )  # fmt: skip
    page.write(path, html)
    return words
