"""What both rooflines, of kernels and of layers, have as tables and say."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.analysis.stack.base import Rows
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.work import Work

ROOF = (
    "flop_per_byte = flops / bytes; gflop_per_s = flops / ms; of_roof_ratio: that by min(FLOP/s, flop_per_byte * "
    "bytes/s) of one core, as measured on the machine that was traced (above 1: caches saved bytes, or the measured "
    "ceiling is too low); its FLOP/s are of fp32, so what is calculated in another data_type has neither bound nor "
    "ratio"
)


def roof_rows(what: str, works: Sequence[tuple[str, Work]], kernels: Kernels) -> Rows:
    """Those that have FLOPs and bytes, the longest first."""
    rows = [
        {
            what: name,
            "ms": work.ms,
            **work.columns(kernels.ceilings),
            "of_roof_ratio": work.of_roof_ratio(kernels.ceilings),
        }
        for name, work in works
        if work.flops and work.bytes
    ]
    return sorted(rows, key=lambda row: -float(str(row["ms"])))


def roof_words(many: str, one: str, rows: Rows) -> str:
    """How many are bound by memory and what these take, and where the longest one is."""
    judged = [row for row in rows if row["bound"]]
    others = len(rows) - len(judged)
    left_out = (
        f" {others} of {len(rows)} {many} that multiply matrices are not judged: they calculate in another type than "
        "fp32, which the machine's FLOP/s are of, or theirs is not known."
        if others
        else ""
    )
    if not judged:
        return left_out.strip()
    memory = [row for row in judged if row["bound"] == "memory"]
    whole = sum(row["ms"] for row in judged)
    part = f", {sum(row['ms'] for row in memory) / whole:.0%} of their time" if whole else ""
    first = judged[0]
    ratio = first["of_roof_ratio"]
    attained = "" if ratio is None else f" and attains {ratio:.0%} of its roof"
    return (
        f"{len(memory)} of {len(judged)} {many} that multiply matrices{' in fp32' if others else ''} are bound by "
        f"memory{part}; the longest, {first[one]}, is bound by {first['bound']}{attained}.{left_out}"
    )
