"""XSP 12: what the kernels of each layer calculate and move."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis, counted
from inferbench_tasks.analysis.stack.kernels import Kernels


class KernelMetrics(KernelAnalysis):
    """Of the kernels alone of which both are known; which share of a layer's kernel time these are stands beside it."""

    number = 12
    name = "kernel_metrics"
    title = "FLOPs and bytes of kernels by layer"
    formula = (
        "flops, bytes and ms: sums over a layer's kernels of which both are known; counted_ratio: the share of the "
        "time of all its kernels that these take; the rates are of the sums"
    )
    needs_work = True

    def of(self, kernels: Kernels) -> Rows:
        """In the layers' order; layers of whose kernels nothing is known have no figures."""
        rows: Rows = []
        for layer, inside in kernels.by_layer():
            work, ratio = counted([each.work for each in inside])
            rows.append(
                {
                    "place": layer.order,
                    "layer": layer.name,
                    "type": layer.type,
                    "ms": work.ms,
                    "counted_ratio": ratio,
                    **work.columns(kernels.ceilings),
                }
            )
        return rows

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """The layer with most arithmetic, and of how much of the time anything is known."""
        known = [row for row in rows if row["flops"]]
        most = max(known, key=lambda row: int(row["flops"]))
        whole = sum(row["flops"] for row in known)
        _, ratio = counted([each.work for each in kernels.kernels])
        # A mean of 0 ns has no rate: so short a time can't be told from none.
        rate = "" if most["gflop_per_s"] is None else f", at {most['gflop_per_s']:.3g} GFLOP/s"
        return (
            f"{most['layer']} calculates most, {most['flops'] / whole:.0%} of {whole / 1e9:.4g} GFLOP{rate}; FLOPs "
            f"and bytes are known of {ratio:.0%} of the kernels' time."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The layers whose counted kernels take most."""
        return bars(rows, ("layer", "bound"), "Kernels with FLOPs and bytes by layer", {"ms": "own time"})
