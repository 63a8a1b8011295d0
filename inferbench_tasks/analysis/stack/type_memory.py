"""XSP 7: the memory that the outputs of all layers of a type take."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import MIB, bars
from inferbench_tasks.analysis.stack.layer_memory import LayerMemory
from inferbench_tasks.analysis.stack.types import by_type


class TypeMemory(LayerMemory):
    """By the runtime's own types; layers of which no bytes are known count as none and are counted."""

    number = 7
    name = "type_memory"
    title = "Memory by type of layer"
    formula = "output_bytes: sum over the layers of a type that tell them (known of count); share_ratio: of all known"

    def rows(self, subject: Subject) -> Rows:
        """The largest first."""
        layers = subject.profile.layers
        whole = sum(layer.output_bytes or 0 for layer in layers)
        rows = []
        for type_, group in by_type(layers).items():
            sizes = [layer.output_bytes for layer in group if layer.output_bytes is not None]
            total = sum(sizes) if sizes else None
            part = None if total is None else share(total, whole)
            rows.append(
                {
                    "type": type_,
                    "count": len(group),
                    "known": len(sizes),
                    "output_bytes": total,
                    "share_ratio": part,
                }
            )
        return sorted(rows, key=lambda row: -(row["output_bytes"] or 0))

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The largest."""
        first = rows[0]
        known, count = (sum(row[name] for row in rows) for name in ("known", "count"))
        of = (
            "all layers' outputs"
            if known == count
            else f"the outputs of the {known} of {count} layers that tell them"
        )
        return f"{first['type']} has {first['share_ratio'] or 0:.0%} of the bytes of {of}."

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The largest."""
        return bars(rows, ("type",), self.title, {"output_bytes": "outputs"}, MIB)
