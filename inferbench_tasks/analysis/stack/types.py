"""XSP 5: how many layers there are of which type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Analysis, Rows, Subject
from inferbench_tasks.analysis.stack.figures import LAYERS, bars
from inferbench_tasks.analysis.stack.profile import Layer


class TypeDistribution(Analysis):
    """By the runtime's own types."""

    number = 5
    name = "types"
    title = "Types of layers"
    formula = "count: layers of a type; share_ratio: of all layers"

    def rows(self, subject: Subject) -> Rows:
        """The most frequent first."""
        layers = subject.profile.layers
        rows = [
            {"type": type_, "count": len(group), "share_ratio": len(group) / len(layers)}
            for type_, group in by_type(layers).items()
        ]
        return sorted(rows, key=lambda row: -int(str(row["count"])))

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The most frequent."""
        first = rows[0]
        return f"{first['count']} of {len(subject.profile.layers)} layers are {first['type']}."

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The most frequent."""
        return bars(rows, ("type",), self.title, {"count": "layers"}, LAYERS)


def by_type(layers: Iterable[Layer]) -> dict[str, list[Layer]]:
    """The layers of each type."""
    groups: dict[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        groups[layer.type].append(layer)
    return groups
