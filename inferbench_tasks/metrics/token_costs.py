"""Energy and money for a million output tokens, from what the load's tokens/s, the energy and the price say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MILLION = 1e6


def per_million_tokens(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """``joule_per_million_tokens`` (power / tokens/s) and ``usd_per_million_tokens`` (USD/s of the cheapest instance /
    tokens/s); None where tokens were not counted, and where there is no energy or no price.

    Both are of the output tokens that arrived within the window; what the prompts took is in them.
    """
    rate = summary["tokens"].get("output_tokens_per_s")
    power_w = summary["energy"].get("power_w")
    instances = summary["cost"].get("instances") or [{}]
    usd_per_hour = instances[0].get("usd_per_hour")
    return {
        "joule_per_million_tokens": power_w / rate * _MILLION if rate and power_w is not None else None,
        "usd_per_million_tokens": usd_per_hour / 3600 / rate * _MILLION
        if rate and usd_per_hour is not None
        else None,
    }
