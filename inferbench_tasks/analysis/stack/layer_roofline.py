"""XSP 14: each layer's kernels against what their operational intensity allows."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.analysis.stack.kernel_base import counted
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.roof import ROOF, Roofline
from inferbench_tasks.analysis.stack.work import Work


class LayerRoofline(Roofline):
    """A layer is its kernels of which FLOPs and bytes are known, as in ``kernel_metrics``."""

    number = 14
    name = "layer_roofline"
    title = "Roofline of layers"
    formula = f"of a layer's kernels whose FLOPs and bytes are known, together: {ROOF}"
    one, many = "layer", "layers"

    def works(self, kernels: Kernels) -> Sequence[tuple[str, Work]]:
        """Of each layer its counted kernels' together."""
        return [
            (layer.name, counted([each.work for each in inside])[0]) for layer, inside in kernels.by_layer()
        ]
