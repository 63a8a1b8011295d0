"""From a run's measurements to all its metrics, built in and third parties'."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from inferbench_tasks.metrics.base import METRICS, Measured

log = logging.getLogger(__name__)


def derive(measured: Measured) -> dict[str, Any]:
    """The summary with every metric in its place.

    A third party's metric that fails is noted under ``metric_problems`` and spoils no run; ours must not fail.
    """
    summary = dict(measured.summary)
    measured = dataclasses.replace(measured, summary=summary)
    summary["stages_ms"] = METRICS.load("stages")().compute(measured)
    summary["energy"] = METRICS.load("energy")().compute(measured)
    summary["carbon"] = METRICS.load("co2")().compute(measured)
    summary["co2_g_per_1k"] = summary["carbon"]["g_per_1k"]
    summary["co2_g_per_1k_samples"] = summary["carbon"].get("g_per_1k_samples")
    summary["cost"] = METRICS.load("cost")().compute(measured)
    summary["cost_usd_per_1k"] = summary["cost"]["usd_per_1k"]
    summary["cost_usd_per_1k_samples"] = summary["cost"].get("usd_per_1k_samples")
    summary["interference"] = METRICS.load("interference")().compute(measured)
    others = {kind: METRICS.origin(kind) for kind in METRICS if METRICS.origin(kind) != "built-in"}
    for kind, origin in others.items():
        try:
            summary.setdefault("others", {})[kind] = METRICS.load(kind)().compute(measured)
        except Exception as error:
            log.warning("metric failed kind=%s origin=%s", kind, origin, exc_info=True)
            summary.setdefault("metric_problems", {})[kind] = f"{origin}: {type(error).__name__}: {error}"
    return summary
