"""XSP 11: the kernels of each layer together."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis
from inferbench_tasks.analysis.stack.kernels import Kernels


class KernelsByLayer(KernelAnalysis):
    """What of its kernels takes most of a layer."""

    number = 11
    name = "kernels_by_layer"
    title = "Kernels by layer"
    formula = (
        "kernels: how many; ms: their own times together; longest: the one that takes most of them, longest_ms; "
        "share_ratio: of all kernels' own times"
    )

    def of(self, kernels: Kernels) -> Rows:
        """In the layers' order."""
        rows: Rows = []
        whole = kernels.added_ms
        for layer, inside in kernels.by_layer():
            ms = sum(each.ms for each in inside)
            most = max(inside, key=lambda each: each.ms, default=None)
            rows.append(
                {
                    "place": layer.order,
                    "layer": layer.name,
                    "type": layer.type,
                    "kernels": len(inside),
                    "ms": ms,
                    "share_ratio": share(ms, whole),
                    "longest": most.name if most else None,
                    "longest_ms": most.ms if most else None,
                }
            )
        return rows

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """The layer whose kernels take most."""
        first = max(rows, key=lambda row: float(row["ms"]))
        return (
            f"The kernels of {first['layer']} ({first['kernels']}) take most, {first['share_ratio'] or 0:.0%} of all "
            f"kernels' time; the longest of them is {first['longest']}, {first['longest_ms'] or 0:.4g} ms."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The layers whose kernels take most."""
        return bars(rows, ("layer", "longest"), "Kernels' time by layer", {"ms": "kernels"})
