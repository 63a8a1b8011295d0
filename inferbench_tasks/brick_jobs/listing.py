"""What an invocation ends with: a line for each prediction, and what did not come to figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.brick_jobs.report import tables
from inferbench_tasks.brick_jobs.report.differing import differing
from inferbench_tasks.brick_jobs.result import BricksResult


def rows(results: Sequence[BricksResult]) -> list[dict[str, Any]]:
    """A line for each model, batch size and granularity; those without figures with their verdict alone."""
    listed, settings = [], differing(results)
    for result in results:
        if result.role != "model":
            continue
        name = str(result.model.get("name") or result.run_id)
        if setting := settings.get(result.run_id):
            name += f", {setting}"
        listed += [
            {
                "model": name,
                "batch": one.batch_size,
                "G": one.granularity,
                "bricks": one.bricks,
                "unique": one.unique,
                "coverage_ratio": one.coverage_ratio,
                "predicted_ms": one.best.ms,
                "95%": f"{one.best.low_ms:.4g} to {one.best.high_ms:.4g}",
                "calibrated_by": tables.calibration(one),
                "measured_ms": one.measured.ms if one.measured else None,
                "over measured": one.best.ms / one.measured.ms if one.measured else None,
                "verdict": str(result.verdict),
            }
            for one in result.predictions
        ]
        if not result.predictions:
            listed.append({"model": name, "verdict": str(result.verdict)})
    return listed


def words(results: Sequence[BricksResult]) -> list[str]:
    """What was measured and what was known before; what went wrong beside the models; how far predictions are off."""
    said = []
    for result in results:
        if result.role == "cut" and "todo" in result.counts:
            of = result.counts
            said.append(
                f"{of['unique']} different bricks of {of['bricks']}; {of['todo']} to measure, of these {of['wholes']} "
                f"whole models; {of['reused']} known before"
            )
        elif result.role != "model" and not result.valid:
            said.append(f"{result.run_id}: {result.verdict}")
    return [*said, *tables.words(results)]
