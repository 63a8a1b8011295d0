"""What nights watch of serving: latency and throughput, and the stages of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.pipelines.watched import Watched

#: As in ``metrics.stages``; ``unattributed`` is the wait in the sender and what no span tells.
PARTS: Final = ("preprocess", "transmit", "queue", "inference", "postprocess", "unattributed")
#: Parts that are work; a longer queue follows from them.
WORK: Final = ("preprocess", "transmit", "inference", "postprocess")


def stage_means(result: Mapping[str, Any]) -> dict[str, float]:
    """Stage -> mean ms per request, of a plain result; without those that it did not measure."""
    stages = result.get("summary", {}).get("stages_ms") or {}
    return {
        part: float(value["mean"])
        for part, value in stages.items()
        if isinstance(value, dict) and value.get("mean") is not None
    }


def watched() -> Watched:
    """Metrics of packages are looked for where it is asked."""
    return Watched(
        collection="results",
        figures=FIGURES.on("night"),
        parts=PARTS,
        work=WORK,
        means=stage_means,
        told=("p50_ms", "p50 {:.3g} ms"),
        compare_page="/inferbench/compare",
    )
