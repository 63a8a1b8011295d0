"""The runs of a trace whose layers are told, by round: what layers' times and profiles of layers and kernels are made
of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from inferbench_tasks.tracing.spans import HARDWARE, Span

#: The attribute of a layer whose times are means over so many runs: one run of a round has it, and stands for all.
MEAN = "mean_of_runs"


@dataclass(frozen=True)
class Run:
    """``layers``: the outermost ones, in the order in which they began; bodies of loops are parts of them.

    ``inside``: the spans of the level library, what a GPU did, and layers within others, by the number of the span they
    are in, of the run's own request.
    ``means``: whether its layers are means of all runs of its round; ``length_ns`` is the mean of these, then, and
    ``count`` how many they are.
    """

    length_ns: int
    layers: tuple[Span, ...]
    inside: Mapping[int, list[Span]]
    means: bool = False
    count: int = 1

    @property
    def instrumented(self) -> bool:
        """Whether what its layers ran is told; of bodies of loops, too, what a GPU did for them."""
        return any(
            each.level != "layer" for layer in self.layers for each in self.inside.get(layer.number, ())
        ) or any(each.level == HARDWARE for within in self.inside.values() for each in within)


def rounds_of(spans: Iterable[Span]) -> list[list[Run]]:
    """The runs with layers of each round, parents before what lies in them; of requests that were asked with the same
    instruments."""
    number: dict[str, int] = {}
    runs: dict[tuple[str, int], Span] = {}
    layers: dict[tuple[str, int], list[Span]] = defaultdict(list)
    inside: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        if span.parent < 0:
            number[span.trace_id] = int(span.attributes.get("round", 0))
        if span.level == "framework":
            runs[span.trace_id, span.number] = span
        elif span.level == "layer" and (parent := (span.trace_id, span.parent)) in runs:
            layers[parent].append(span)
        elif span.level in ("layer", "library", HARDWARE):
            inside[span.trace_id][span.parent].append(span)
    lengths_ns: dict[int, list[int]] = defaultdict(list)
    for (trace_id, _), span in runs.items():
        lengths_ns[number.get(trace_id, 0)].append(span.duration_ns)
    rounds: dict[int, list[Run]] = defaultdict(list)
    for (trace_id, run), of_run in layers.items():
        ordered = tuple(sorted(of_run, key=lambda span: (span.start_ns, span.number)))
        at = number.get(trace_id, 0)
        means = any(MEAN in span.attributes for span in ordered)
        # The run that holds the means was chosen for its length: by it they would add up whatever they are.
        of = lengths_ns[at] if means else [runs[trace_id, run].duration_ns]
        rounds[at].append(Run(round(fmean(of)), ordered, inside[trace_id], means, len(of)))
    return [rounds[at] for at in sorted(rounds)]


def middle_runs(runs: Sequence[Run]) -> list[Run]:
    """The middle half by length; all of fewer than four."""
    out = len(runs) // 4
    ordered = sorted(runs, key=lambda run: run.length_ns)
    return ordered[out : len(ordered) - out]
