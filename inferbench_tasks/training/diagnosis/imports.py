"""All rules over an import, the costliest cause first."""

from __future__ import annotations

from inferbench_tasks.training.diagnosis import (
    contradiction,
    cores,
    expected_device,
    misfit,
    unsynchronised,
)
from inferbench_tasks.training.diagnosis.base import Cause, ImportRule
from inferbench_tasks.training.imported.rows import Import

RULES: tuple[ImportRule, ...] = (
    cores.find,
    expected_device.find,
    unsynchronised.find,
    misfit.find,
    contradiction.find,
)
_ORDER = ("cause", "comparison", "wrong")


def diagnose(content: Import) -> list[Cause]:
    """Causes by what they cost, then comparisons likewise, then figures that are wrong."""
    causes = [cause for rule in RULES for cause in rule(content)]
    return sorted(causes, key=lambda cause: (_ORDER.index(cause.kind), -(cause.cost_s or 0.0)))
