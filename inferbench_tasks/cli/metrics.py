"""``inferbench metrics``: the known metrics, with units and formulas."""

from __future__ import annotations

from typing import Any

import typer

from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.metrics.base import METRICS
from inferbench_tasks.output import OUTPUT, OutputFormat, emit

app = typer.Typer()


@app.command()
def metrics(output: OutputFormat = OUTPUT) -> None:
    """List the metrics: tag, unit, formula, which way is better, where it stands in a result."""
    emit([row(kind) for kind in METRICS], output)


def row(kind: str) -> dict[str, Any]:
    """One metric's card; a plugin that can't be imported shows why."""
    origin = METRICS.origin(kind)
    try:
        metric = METRICS.load(kind)
    except InferBenchError as error:
        return {
            "metric": kind,
            "tag": None,
            "unit": None,
            "better": None,
            "formula": str(error),
            "path": None,
            "origin": origin,
        }
    return {
        "metric": kind,
        "tag": metric.tag,
        "unit": metric.unit,
        "better": metric.better,
        "formula": metric.formula,
        "path": f"summary.{metric.path}",
        "origin": origin,
    }
