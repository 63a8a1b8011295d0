"""The runs of a trace whose layers are told, by round: what profiles of layers and of kernels are both made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inferbench_tasks.tracing.spans import Span


@dataclass(frozen=True)
class Run:
    """``layers``: the outermost ones, in the order in which they began; bodies of loops are parts of them.

    ``inside``: the spans of the library level by the number of the span they are in, of the run's own request.
    """

    length_ns: int
    layers: tuple[Span, ...]
    inside: Mapping[int, list[Span]]

    @property
    def instrumented(self) -> bool:
        """Whether what its layers ran is told."""
        return any(layer.number in self.inside for layer in self.layers)


def rounds_of(spans: Iterable[Span]) -> list[list[Run]]:
    """The runs with layers of each round, parents before what lies in them."""
    number: dict[str, int] = {}
    runs: dict[tuple[str, int], Span] = {}
    layers: dict[tuple[str, int], list[Span]] = defaultdict(list)
    inside: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        if span.parent < 0:
            number[span.trace_id] = int(span.attributes.get("round", 0))
        elif span.level == "framework":
            runs[span.trace_id, span.number] = span
        elif span.level == "layer" and (parent := (span.trace_id, span.parent)) in runs:
            layers[parent].append(span)
        elif span.level == "library":
            inside[span.trace_id][span.parent].append(span)
    rounds: dict[int, list[Run]] = defaultdict(list)
    for (trace_id, run), of_run in layers.items():
        ordered = sorted(of_run, key=lambda span: (span.start_ns, span.number))
        length_ns = runs[trace_id, run].duration_ns
        rounds[number.get(trace_id, 0)].append(Run(length_ns, tuple(ordered), inside[trace_id]))
    return [rounds[at] for at in sorted(rounds)]


def middle_runs(runs: Sequence[Run]) -> list[Run]:
    """The middle half by length; all of fewer than four."""
    out = len(runs) // 4
    ordered = sorted(runs, key=lambda run: run.length_ns)
    return ordered[out : len(ordered) - out]
