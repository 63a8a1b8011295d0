"""CO2 of 1,000 requests, and of 1,000 samples: the energy times the carbon intensity of a region's electricity."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from inferbench_tasks.catalogue import Carbon as Region
from inferbench_tasks.catalogue import carbon_rows
from inferbench_tasks.errors import InputError
from inferbench_tasks.metrics.base import Block, Measured

#: A region's name in ``configs/carbon.yaml``; the world's mean without it.
REGION = "INFERBENCH_CARBON_REGION"
DEFAULT_REGION = "world"
_J_PER_KWH = 3.6e6


class Carbon(Block):
    """Emission by electricity; what the hardware's making emitted is not in it, cooling neither."""

    unit: ClassVar[str] = "g CO2e"
    formula: ClassVar[str] = "J/request x 1,000 / 3.6e6 J/kWh x g/kWh of the region"
    path: ClassVar[str] = "carbon"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{g_per_1k, g_per_1k_samples, region, g_per_kwh, source, date, uncertainty_ratio, reason}."""
        energy = measured.summary.get("energy") or {}
        joule = energy.get("joule_per_request")
        if joule is None:
            return {"g_per_1k": None, "reason": f"no energy is known: {energy.get('reason')}"}
        row = region_row()
        if row is None:
            return {"g_per_1k": None, "reason": "configs/carbon.yaml is missing"}
        return {
            "g_per_1k": g_per_1k(joule, row),
            "g_per_1k_samples": g_per_1k(energy["joule_per_sample"], row),
            "region": row.region,
            "g_per_kwh": row.g_per_kwh,
            "source": row.source,
            "date": row.date,
            "uncertainty_ratio": energy["uncertainty_ratio"],
            "reason": None,
        }


def region_row() -> Region | None:
    """The electricity of the region that was chosen; None without the table. InputError where it does not have it."""
    region = os.environ.get(REGION, DEFAULT_REGION)
    rows = carbon_rows()
    row = next((row for row in rows if row.region.lower() == region.lower()), None)
    if rows and row is None:
        raise InputError(f"{REGION}: {region!r} is unknown; known: {', '.join(r.region for r in rows)}")
    return row


def g_per_1k(joule: float, region: Region) -> float:
    """Emission of 1,000 times so much energy."""
    return joule * 1000 / _J_PER_KWH * region.g_per_kwh
