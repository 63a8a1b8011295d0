"""Whether the CPU time of two runs can be held against each other: it is work only at one clock, and on cores whose
other hardware threads were as busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

CPU = "cpu_ms_per_sample"
#: Clocks further apart than this share make a difference of as much by themselves.
CLOCK_RATIO = 0.02
#: A thread whose sibling is busy runs at 50 to 70% of its speed: so much more of that is 3 to 5% of the CPU time.
SIBLINGS_RATIO = 0.10


def differ(first: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Why the CPU times of two summaries are not of the same thing; None where nothing shows that."""
    one, two = _known(first, "clock", "mhz"), _known(other, "clock", "mhz")
    if one and two and abs(math.log(two / one)) > CLOCK_RATIO:
        return f"their clocks differ ({one:,.0f} and {two:,.0f} MHz)"
    one, two = _known(first, "siblings", "busy_ratio"), _known(other, "siblings", "busy_ratio")
    if one is not None and two is not None and abs(two - one) > SIBLINGS_RATIO:
        return f"both threads of a core were busy in up to {one:.0%} and {two:.0%} of the time"
    return None


def unknown(*summaries: Mapping[str, Any]) -> str | None:
    """What of this nobody knows of them; None where all is known, and of results from before it was looked at."""
    blocks = [block for summary in summaries if (block := summary.get("cpu_time"))]
    texts = [
        block[part]["text"] for part in ("clock", "siblings") for block in blocks if not block[part]["known"]
    ]
    return "; ".join(dict.fromkeys(texts)) or None


def doubt(*summaries: Mapping[str, Any]) -> list[str]:
    """The sentence of an advice that goes by CPU time about what nobody knows of it; none where all is known."""
    text = unknown(*summaries)
    return [f"Whether clocks or shared cores had a part in that is not known: {text}."] if text else []


def _known(summary: Mapping[str, Any], part: str, name: str) -> float | None:
    value = ((summary.get("cpu_time") or {}).get(part) or {}).get(name)
    return None if value is None else float(value)
