"""XSP 13: kernels against what else a layer does."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis
from inferbench_tasks.analysis.stack.kernels import Kernels

_ONEDNN = "oneDNN"
#: Sums of means differ by less, from rounding alone.
_ROUNDING_MS = 1e-9


class KernelShare(KernelAnalysis):
    """Of layers that run primitives of oneDNN: only these are told apart from what is around them."""

    number = 13
    name = "kernel_share"
    title = "Kernels against other time by layer"
    formula = (
        "of layers with primitives of oneDNN: primitives_ms, their time; operators_ms, the runtime's own operators in "
        "none of which these lie; other_ms: the layer's time less both; primitives_ratio: of the layer's time; neither "
        "where both together exceed the layer, whose time was told too coarsely or whose parts ran side by side"
    )

    def missing(self, subject: Subject) -> str | None:
        """Without oneDNN nobody tells an operator's work from its dispatch."""
        lacks = super().missing(subject)
        if (
            lacks
            or subject.kernels is None
            or any(each.library == _ONEDNN for each in subject.kernels.kernels)
        ):
            return lacks
        return (
            "primitives of oneDNN: of other operators nobody tells work and dispatch apart, and the time of a layer on "
            "a GPU is that of its kernels alone"
        )

    def of(self, kernels: Kernels) -> Rows:
        """In the layers' order."""
        rows: Rows = []
        for layer, inside in kernels.by_layer():
            if not any(each.library == _ONEDNN for each in inside):
                continue
            primitives = sum(each.ms for each in inside if each.library == _ONEDNN)
            operators = sum(each.ms for each in inside if each.library != _ONEDNN)
            other = layer.ms - primitives - operators
            fits = other >= -_ROUNDING_MS
            rows.append(
                {
                    "place": layer.order,
                    "layer": layer.name,
                    "type": layer.type,
                    "ms": layer.ms,
                    "primitives_ms": primitives,
                    "operators_ms": operators,
                    "other_ms": max(0.0, other) if fits else None,
                    "primitives_ratio": share(primitives, layer.ms) if fits else None,
                }
            )
        return rows

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """All of them together, and the one with most around its primitives."""
        told = _told(rows)
        exceeded = (
            f" {len(rows) - len(told)} of {len(rows)} layers with such primitives are left out: their parts exceed "
            "them, as times of so short layers are too coarse or they ran side by side."
            if len(told) < len(rows)
            else ""
        )
        whole, primitives = (sum(row[name] for row in told) for name in ("ms", "primitives_ms"))
        if not whole:
            return (
                exceeded.strip()
                or "The layers with oneDNN's primitives took too short a time to be told from none."
            )
        most = max(told, key=lambda row: float(row["other_ms"]))
        return (
            f"In {len(told)} of {len(kernels.layers)} layers oneDNN's primitives take {primitives / whole:.1%} of the "
            f"layers' time; most of what is around them is in {most['layer']}, {most['other_ms']:.4g} ms of "
            f"{most['ms']:.4g} ms.{exceeded}"
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The longest of these layers, in their parts."""
        parts = {
            "primitives_ms": "primitives",
            "operators_ms": "other operators",
            "other_ms": "around primitives",
        }
        return bars(_told(rows), ("layer",), "Kernels against other time by layer", parts)


def _told(rows: Rows) -> Rows:
    """The rows whose parts are no more than the layer."""
    return [row for row in rows if row["other_ms"] is not None]
