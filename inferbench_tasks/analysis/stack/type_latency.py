"""XSP 6: the time that all layers of a type take."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Analysis, Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.types import by_type


class TypeLatency(Analysis):
    """By the runtime's own types."""

    number = 6
    name = "type_latency"
    title = "Time by type of layer"
    formula = "ms: sum over the layers of a type; share_ratio: of all layers' sum"

    def rows(self, subject: Subject) -> Rows:
        """The longest first."""
        whole = subject.profile.layers_ms
        rows = []
        for type_, group in by_type(subject.profile.layers).items():
            ms = sum(layer.ms for layer in group)
            rows.append({"type": type_, "count": len(group), "ms": ms, "share_ratio": share(ms, whole)})
        return sorted(rows, key=lambda row: -float(str(row["ms"])))

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The longest."""
        first = rows[0]
        return f"{first['type']} takes {first['share_ratio'] or 0:.0%} of the layers' time, in {first['count']} layers."

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The longest."""
        return bars(rows, ("type",), self.title, {"ms": "time"})
