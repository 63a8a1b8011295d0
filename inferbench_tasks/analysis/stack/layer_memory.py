"""XSP 4: the memory that each layer's outputs take."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Analysis, Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import MIB, in_order


class LayerMemory(Analysis):
    """Of its outputs alone: what runtimes use besides, or use again, their profiles do not tell."""

    number = 4
    name = "layer_memory"
    title = "Memory of each layer's outputs"
    formula = "output_bytes: of all outputs of the layer in one run; share_ratio: of all layers' outputs"

    def missing(self, subject: Subject) -> str | None:
        """Not every source tells bytes."""
        if any(layer.output_bytes is not None for layer in subject.profile.layers):
            return None
        return (
            "bytes of outputs: the profiles of ONNX Runtime tell them, exported programs of PyTorch (convert.format: "
            "pt2), and OpenVINO's graph for models of fixed size"
        )

    def rows(self, subject: Subject) -> Rows:
        """In their order; None where the runtime tells none."""
        layers = subject.profile.layers
        whole = sum(layer.output_bytes or 0 for layer in layers)
        return [
            {
                "place": layer.order,
                "layer": layer.name,
                "output_bytes": layer.output_bytes,
                "share_ratio": None if layer.output_bytes is None else share(layer.output_bytes, whole),
            }
            for layer in layers
        ]

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The largest."""
        known = [layer for layer in subject.profile.layers if layer.output_bytes is not None]
        whole = sum(layer.output_bytes or 0 for layer in known)
        largest = max(known, key=lambda layer: layer.output_bytes or 0)
        return (
            f"The outputs of {len(known)} of {len(subject.profile.layers)} layers take {whole / 2**20:.4g} MiB; "
            f"the largest are those of {largest.name}, {(largest.output_bytes or 0) / 2**20:.4g} MiB."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """All of which they are known."""
        return in_order(rows, "output_bytes", self.title, MIB)
