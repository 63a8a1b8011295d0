"""Where a model's time goes, layer by layer: XSP's tables of layers (its analyses 2, 4, 5) from spans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from inferbench_tasks.tracing.rounds import rounds_of
from inferbench_tasks.tracing.spans import Span


@dataclass
class Layer:
    """One layer over all traced requests; ``order``: its place among the layers of a run."""

    order: int
    name: str
    type: str
    durations_ns: list[int] = field(default_factory=list)
    output_bytes: int | None = None

    @property
    def median_ms(self) -> float:
        """Its usual time."""
        return median(self.durations_ns) / 1e6


@dataclass(frozen=True)
class LayerTimes:
    """``layers``: in the order in which they run; those within others (bodies of If and Loop) are part of these.

    ``framework_ms``: median of the runs. ``explained_ratio``: median over the runs of the layers' sum by the run.
    Where a runtime tells means alone, the mean of a round's runs is its one run.
    """

    layers: tuple[Layer, ...]
    framework_ms: float
    explained_ratio: float

    def by_type(self) -> list[dict[str, Any]]:
        """{type, count, ms, share_ratio} of each type of layer, longest first; shares are of all layers, None where
        their instrument is too coarse to tell any of them from 0."""
        groups: dict[str, list[Layer]] = defaultdict(list)
        for layer in self.layers:
            groups[layer.type].append(layer)
        total = sum(layer.median_ms for layer in self.layers)
        rows = [
            {
                "type": name,
                "count": len(group),
                "ms": (ms := sum(layer.median_ms for layer in group)),
                "share_ratio": ms / total if total else None,
            }
            for name, group in groups.items()
        ]
        return sorted(rows, key=lambda row: -float(str(row["ms"])))

    def as_dict(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "framework_ms": self.framework_ms,
            "explained_ratio": self.explained_ratio,
            "layers": [
                {
                    "order": each.order,
                    "name": each.name,
                    "type": each.type,
                    "ms": each.median_ms,
                    "output_bytes": each.output_bytes,
                }
                for each in self.layers
            ],
            "by_type": self.by_type(),
        }


def layer_times(spans: Iterable[Span]) -> LayerTimes | None:
    """The layers of all runs in these spans; None where no run tells of any.

    A layer is the same in two runs if it has the same name, and is the same one of that name in its run: a node in a
    loop runs several times.
    """
    runs = [run for of_round in rounds_of(spans) for run in of_round]
    if not runs:
        return None
    layers: dict[tuple[str, int], Layer] = {}
    for run in runs:
        seen: dict[str, int] = defaultdict(int)
        for span in run.layers:
            again = (span.name, seen[span.name])
            seen[span.name] += 1
            layer = layers.setdefault(again, Layer(len(layers), span.name, span.type))
            layer.durations_ns.append(span.work_ns)
            layer.output_bytes = span.attributes.get("output_bytes", layer.output_bytes)
    ratios = [sum(span.work_ns for span in run.layers) / max(1, run.length_ns) for run in runs]
    framework_ms = median(run.length_ns for run in runs) / 1e6
    return LayerTimes(tuple(layers.values()), framework_ms, median(ratios))
