"""XSP 15: all kernels of the model together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis, counted
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.work import total


class KernelsByModel(KernelAnalysis):
    """The model as one, and its libraries' parts."""

    number = 15
    name = "kernels_by_model"
    title = "Kernels of the model"
    formula = (
        "a row for all kernels and one for those of each library: ms, their own times together, of a GPU's, which may "
        "run side by side, the time in which any of them ran; share_ratio: of a run; flops and bytes: of those of "
        "which both are known, whose share of the time is counted_ratio; the rates are of these"
    )

    def of(self, kernels: Kernels) -> Rows:
        """All, then by library."""
        libraries = list(dict.fromkeys(each.library for each in kernels.kernels))
        rows: Rows = []
        for library in ["all", *libraries]:
            works = [each.work for each in kernels.kernels if library in ("all", each.library)]
            work, ratio = counted(works)
            ms = kernels.ms if len(works) == len(kernels.kernels) else total(works).ms
            rows.append(
                {
                    "library": library,
                    "kernels": len(works),
                    "ms": ms,
                    "share_ratio": share(ms, kernels.framework_ms),
                    "counted_ratio": ratio,
                    **work.columns(kernels.ceilings),
                }
            )
        return rows

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """What they take, and what bounds them."""
        first = rows[0]
        return (
            f"{first['kernels']} kernels take {first['share_ratio'] or 0:.1%} of a run's {kernels.framework_ms:.4g} "
            f"ms; {_work(first)}."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """By library."""
        return bars(rows[1:], ("library",), "Kernels' time by library", {"ms": "own time"})


def _work(row: Mapping[str, Any]) -> str:
    """What the kernels of a row do together, as far as that is known."""
    if row["flops"] is None:
        return "FLOPs and bytes are known of none of them"
    known = f"those of which FLOPs and bytes are known ({row['counted_ratio']:.0%} of their time)"
    if not row["flops"]:
        return f"{known} multiply no matrices"
    rate = "" if row["gflop_per_s"] is None else f" at {row['gflop_per_s']:.3g} GFLOP/s"
    bound = f" and are bound by {row['bound']} together" if row["bound"] else ""
    return f"{known} do {row['flops'] / 1e9:.4g} GFLOP{rate}{bound}"
