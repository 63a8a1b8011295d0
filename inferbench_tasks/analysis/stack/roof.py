"""What both rooflines, of kernels and of layers, have as tables and say."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.analysis.stack.base import Rows
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.work import Work

ROOF = (
    "flop_per_byte = flops / bytes; gflop_per_s = flops / ms; of_roof_ratio: that by min(FLOP/s, flop_per_byte * "
    "bytes/s) of one core times the threads, as measured on the machine that was traced (above 1: caches saved bytes, "
    "or the measured ceiling is too low)"
)


def roof_rows(what: str, works: Sequence[tuple[str, Work]], kernels: Kernels) -> Rows:
    """Those that have FLOPs and bytes, the longest first."""
    rows = [
        {
            what: name,
            "ms": work.ms,
            **work.columns(kernels.ceilings),
            "of_roof_ratio": work.of_roof_ratio(kernels.ceilings, kernels.threads),
        }
        for name, work in works
        if work.flops and work.bytes
    ]
    return sorted(rows, key=lambda row: -float(str(row["ms"])))


def roof_words(many: str, one: str, rows: Rows) -> str:
    """How many are bound by memory and what these take, and where the longest one is."""
    memory = [row for row in rows if row["bound"] == "memory"]
    whole = sum(row["ms"] for row in rows)
    part = sum(row["ms"] for row in memory) / whole if whole else 0.0
    first = rows[0]
    attained = (
        "nothing can be told of" if first["of_roof_ratio"] is None else f"{first['of_roof_ratio']:.0%} of"
    )
    return (
        f"{len(memory)} of {len(rows)} {many} that multiply matrices are bound by memory, {part:.0%} of their time; "
        f"the longest, {first[one]}, is bound by {first['bound']} and attains {attained} its roof."
    )
