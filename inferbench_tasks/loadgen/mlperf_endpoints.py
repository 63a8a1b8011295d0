"""A load as a measurement point of MLPerf Endpoints (rules v1.0, sections 4.1 and 5.5), where it is one.

A point has a fixed number of requests in flight. These are its figures by our records, no submission: that asks for the
rules' model, data set, tokenizer, duration and accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from inferbench_tasks.loadgen.plan import LoadPlan

#: Points of the ultra low region have so many requests in flight at most, and C_max has more.
_ULTRA_LOW = 32
REGIONS = ("ultra low", "low", "medium", "high")


def endpoints_point(plan: LoadPlan, summary: dict[str, Any]) -> dict[str, Any] | None:
    """``concurrency``, ``system_tps``, ``tps_per_user`` (1000 / p90 of TPOT), ``ttft_p90_ms`` (from the send).

    None of a load that is no closed loop without pauses, or of conversations; a figure is None where ours is, with its
    reason there.
    """
    segment = plan.segments[-1]
    if segment.kind != "closed" or segment.think_time_ns or plan.turn_step:
        return None
    tpot = summary["tpot_ms"]["p90"]
    return {
        "concurrency": segment.concurrency,
        "system_tps": summary["output_tokens_per_s"],
        "tps_per_user": 1000 / tpot if tpot else None,
        "ttft_p90_ms": summary["ttft_from_send_ms"]["p90"],
    }


def regions(concurrencies: Iterable[int]) -> dict[int, str] | None:
    """The region of each point of a curve, whose lowest and highest set the bounds (section 5.5).

    None where the rules know none: the lowest must be 1 to 32, the highest above that.
    """
    points = sorted(set(concurrencies))
    if not points or not 1 <= points[0] <= _ULTRA_LOW < points[-1]:
        return None
    least, most = points[0], points[-1]
    step = math.log2(most - least) / 3
    ends = (least, round(least + 2**step), round(least + 2 ** (2 * step)), most)
    return {
        point: next(name for name, end in zip(REGIONS, ends, strict=True) if point <= end) for point in points
    }
