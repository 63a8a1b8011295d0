"""XSP 3: the time of each layer in its order."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Analysis, Rows, Subject
from inferbench_tasks.analysis.stack.figures import in_order


class LayerLatency(Analysis):
    """Where along the model the time goes."""

    number = 3
    name = "layer_latency"
    title = "Time of each layer"
    formula = "ms as in the table of layers; until_ms: the sum up to and with the layer"

    def rows(self, subject: Subject) -> Rows:
        """In their order."""
        rows: Rows = []
        until = 0.0
        for layer in subject.profile.layers:
            until += layer.ms
            rows.append({"place": layer.order, "layer": layer.name, "ms": layer.ms, "until_ms": until})
        return rows

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The place where half of the time is over."""
        half = rows[-1]["until_ms"] / 2
        at = next(number for number, row in enumerate(rows, 1) if row["until_ms"] >= half)
        longest = max(rows, key=lambda row: float(row["ms"]))
        return (
            f"Half of the layers' time is over after {at} of {len(rows)} layers; the longest is {longest['layer']}, "
            f"{longest['ms']:.4g} ms."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """All of them, and the sum so far."""
        return in_order(rows, "ms", self.title, so_far="until_ms")
