"""The share of a predicted time that is measured, as it is shown."""

from __future__ import annotations

import math

#: With less of its time measured a prediction begins with saying so, and is not compared.
MEASURED_RATIO = 0.9


def percent(ratio: float) -> str:
    """In percent with one decimal, rounded down: 0.8999 is not what is needed, and must not look like it."""
    return f"{math.floor(1e3 * ratio + 1e-9) / 10:.1f}%"


def too_little(ratio: float) -> str:
    """Why a prediction of which less than ``MEASURED_RATIO`` is measured is not compared."""
    return f"only {percent(ratio)} of its time is measured, {MEASURED_RATIO:.0%} are needed"
