"""From a run's measurements to all its figures, built in and third parties'."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

from inferbench_tasks.dotted import parts, set_at, value_at
from inferbench_tasks.errors import StageError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.metrics.base import METRICS, Block, Measured
from inferbench_tasks.metrics.carbon import Carbon
from inferbench_tasks.metrics.cost import Cost
from inferbench_tasks.metrics.cpu_time import CpuTime
from inferbench_tasks.metrics.energy import Energy
from inferbench_tasks.metrics.interference import Interference
from inferbench_tasks.metrics.quiet import Quiet
from inferbench_tasks.metrics.stages import Stages
from inferbench_tasks.metrics.token_costs import per_million_tokens

log = logging.getLogger(__name__)

#: In the order in which they are made: a later one may need an earlier one.
BLOCKS: tuple[type[Block], ...] = (Stages, CpuTime, Energy, Carbon, Cost, Interference, Quiet)


def derive(measured: Measured) -> dict[str, Any]:
    """The summary with every block and figure in its place.

    A metric that fails is noted under ``metric_problems`` and spoils no run.
    """
    summary = dict(measured.summary)
    measured = dataclasses.replace(measured, summary=summary)
    for block in BLOCKS:
        summary[block.path] = block().compute(measured)
    carbon, cost = summary["carbon"], summary["cost"]
    summary["co2_g_per_1k"] = carbon["g_per_1k"]
    summary["co2_g_per_1k_samples"] = carbon.get("g_per_1k_samples")
    summary["cost_usd_per_1k"] = cost["usd_per_1k"]
    summary["cost_usd_per_1k_samples"] = cost.get("usd_per_1k_samples")
    if summary.get("tokens"):
        summary["tokens"] = {**summary["tokens"], **per_million_tokens(summary)}
    problems = dict(FIGURES.problems())
    for kind, figure in FIGURES.brought().items():
        origin = METRICS.origin(kind)
        try:
            _put(summary, figure.path, METRICS.load(kind)().compute(measured))
        except Exception as error:
            log.warning("metric failed kind=%s origin=%s", kind, origin, exc_info=True)
            problems[kind] = f"{type(error).__name__}: {error}"
    if problems:
        summary["metric_problems"] = {
            kind: f"{METRICS.origin(kind)}: {text}" for kind, text in problems.items()
        }
    return summary


def _put(summary: dict[str, Any], path: str, value: Any) -> None:
    """Store a metric's value; StageError if it is no number, or something else stands there already."""
    if hasattr(value, "item"):  # numpy's numbers
        value = value.item()
    if not (value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))):
        raise StageError(f"its value is no number: {value!r:.100}")
    *sections, _ = parts(path)
    places = [value_at(summary, ".".join(sections[: depth + 1])) for depth in range(len(sections))]
    if value_at(summary, path) is not None or any(
        not isinstance(place, (dict, type(None))) for place in places
    ):
        raise StageError(f"something else stands at {path} of the summary already")
    set_at(summary, path, float(value) if value is not None and math.isfinite(value) else None)
