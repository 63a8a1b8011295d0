"""``inferbench metrics``: the figures of a run, with units and formulas, and which metric brings them."""

from __future__ import annotations

from typing import Any

import typer

from inferbench_tasks.figures import FIGURES, METRICS
from inferbench_tasks.output import OUTPUT, OutputFormat, emit

app = typer.Typer()


@app.command()
def metrics(output: OutputFormat = OUTPUT) -> None:
    """List the figures of a run: name, unit, which way is better, formula, where each stands in a result."""
    emit(rows(), output)


def rows() -> list[dict[str, Any]]:
    """A line per figure; a metric whose figure can't be had shows why."""
    kinds = {figure.name: kind for kind, figure in FIGURES.brought().items()}
    computed = [
        _row(
            figure.name,
            METRICS.origin(kinds[figure.name]) if figure.name in kinds else "built-in",
            unit=figure.unit,
            better=figure.better,
            formula=figure.formula,
            path=figure.field_path,
            also=list(figure.aliases),
        )
        for figure in FIGURES.values()
    ]
    problems = FIGURES.problems().items()
    return computed + [_row(kind, METRICS.origin(kind), formula=text) for kind, text in problems]


def _row(figure: str, origin: str, **values: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("unit", "better", "formula", "path", "also"))
    return {"figure": figure, **nothing, **values, "origin": origin}
