"""XSP 2: the layers in the order in which they run, and how few of them take how much."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Analysis, Rows, Subject, share
from inferbench_tasks.analysis.stack.bounds import bounds_in_words, bounds_of
from inferbench_tasks.analysis.stack.figures import bars


class LayerTable(Analysis):
    """Everything that is known of each layer."""

    number = 2
    name = "layers"
    title = "Layers in their order"
    formula = (
        "ms: mean over the middle half of each round's runs, then over the rounds, on a GPU of the time that it worked "
        "for the layer, and of what ran on the CPU beside it of the time in which the GPU worked for "
        "none; share_ratio: of the runtime's run, of which the layers and what is between them are the parts"
    )

    def rows(self, subject: Subject) -> Rows:
        """A line for each layer, and one for what is between them."""
        profile = subject.profile
        rows: Rows = [
            {
                "place": layer.order,
                "layer": layer.name,
                "type": layer.type,
                "kind": layer.kind,
                "shape": list(layer.shape) if layer.shape else None,
                "ms": layer.ms,
                "share_ratio": share(layer.ms, profile.framework_ms),
                "output_bytes": layer.output_bytes,
                "fused": list(layer.fused) or None,
            }
            for layer in profile.layers
        ]
        between = profile.framework_ms - profile.layers_ms
        nothing = dict.fromkeys(rows[0], None) if rows else {}
        last = {"layer": "between layers", "ms": between, "share_ratio": share(between, profile.framework_ms)}
        return [*rows, {**nothing, **last}]

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The bottleneck: what the three longest take, and what bounds them where their kernels are told."""
        profile = subject.profile
        few = sorted(profile.layers, key=lambda layer: -layer.ms)[:3]
        taken = sum(layer.ms for layer in few)
        bound = bounds_in_words(bounds_of(subject, few))
        return (
            f"{len(few)} of {len(profile.layers)} layers take {taken / profile.framework_ms:.0%} of a run's "
            f"{profile.framework_ms:.4g} ms{f'; {bound}' if bound else ''}; all layers add up to "
            f"{profile.layers_ms / profile.framework_ms:.1%} of it."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """What takes most of a run, the runtime's own work between layers too; nothing of what took no time, as what
        is between layers that add up to more than the run.
        """
        taken = [row for row in rows if row["ms"] > 0]
        return bars(taken, ("layer", "type"), "What takes most of a run", {"ms": "time"})
