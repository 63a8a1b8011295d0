"""XSP 14: each layer's kernels against what their operational intensity allows."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject
from inferbench_tasks.analysis.stack.figures import roofline
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis, counted
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.roof import ROOF, roof_rows, roof_words


class LayerRoofline(KernelAnalysis):
    """A layer is its kernels of which FLOPs and bytes are known, as in ``kernel_metrics``."""

    number = 14
    name = "layer_roofline"
    title = "Roofline of layers"
    formula = f"of a layer's kernels whose FLOPs and bytes are known, together: {ROOF}"
    needs_work = True
    needs_ceilings = True

    def of(self, kernels: Kernels) -> Rows:
        """The longest first."""
        works = [
            (layer.name, counted([each.work for each in kernels.of_layer(layer)])[0])
            for layer in kernels.layers
        ]
        return roof_rows("layer", works, kernels)

    def words(self, kernels: Kernels) -> str:
        """How many are bound by memory, and where the longest one is."""
        return roof_words("layers", "layer", self.of(kernels))

    def figure(self, subject: Subject) -> Chart:
        """The roof, and the layers below it."""
        assert subject.kernels is not None
        return roofline(self.rows(subject), "layer", subject.kernels, "Roofline of layers")
