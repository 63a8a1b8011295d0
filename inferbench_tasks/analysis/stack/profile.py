"""A traced model as the analyses see it: its layers' times, which add up with what is between them to a run's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeVar

from inferbench_tasks.analysis.stack.kinds import kind_of
from inferbench_tasks.tracing.spans import Span

T = TypeVar("T")


@dataclass(frozen=True)
class Layer:
    """``ms``: its mean over each round's middle runs. ``shape``: of its first output, -1 where it is free.

    ``fused``: the operators that the runtime says it stands for, itself included.
    """

    order: int
    name: str
    type: str
    ms_by_round: tuple[float, ...]
    shape: tuple[int, ...] | None = None
    output_bytes: int | None = None
    fused: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What it does, whatever its runtime calls it."""
        return kind_of(self.type)

    @property
    def ms(self) -> float:
        """The mean of the rounds."""
        return fmean(self.ms_by_round)


@dataclass(frozen=True)
class Profile:
    """The model of one traced run. ``label``: what tells it from the others beside it.

    Times are means over the middle half of each round's runs (by their length: the most disturbed are left out), so
    that layers and what is between them add up exactly. ``about``: model, digest, backend, version, device.
    """

    label: str
    run_id: str
    layers: tuple[Layer, ...]
    framework_ms_by_round: tuple[float, ...]
    runs: int
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def framework_ms(self) -> float:
        """A run of the runtime, the mean of the rounds."""
        return fmean(self.framework_ms_by_round)

    @property
    def layers_ms(self) -> float:
        """All layers together."""
        return sum(layer.ms for layer in self.layers)

    @property
    def between_ms_by_round(self) -> tuple[float, ...]:
        """What of a run is in no layer: the runtime's own work, and its instrument's."""
        sums = (
            sum(layer.ms_by_round[at] for layer in self.layers)
            for at in range(len(self.framework_ms_by_round))
        )
        return tuple(whole - part for whole, part in zip(self.framework_ms_by_round, sums, strict=True))


@dataclass(frozen=True)
class _Run:
    length_ns: int
    layers: tuple[Span, ...]


def profile_of(spans: Iterable[Span], label: str = "", run_id: str = "", **about: Any) -> Profile | None:
    """The profile that spans make; None where no run in them has layers.

    A layer is the same in two runs if it has the same name, and is the same one of that name in its run. Only the
    outermost ones count: bodies of loops are parts of them.
    """
    rounds = _rounds(spans)
    if not rounds:
        return None
    middles = [middle_runs(runs, lambda run: run.length_ns) for runs in rounds]
    times: list[dict[tuple[str, int], float]] = []
    firsts: dict[tuple[str, int], Span] = {}
    for runs in middles:
        sums: dict[tuple[str, int], float] = defaultdict(float)
        for run in runs:
            seen: dict[str, int] = defaultdict(int)
            for span in run.layers:
                key = (span.name, seen[span.name])
                seen[span.name] += 1
                firsts.setdefault(key, span)
                sums[key] += span.duration_ns / 1e6 / len(runs)
        times.append(sums)
    layers = tuple(
        _layer(order, span, tuple(each.get(key, 0.0) for each in times))
        for order, (key, span) in enumerate(firsts.items())
    )
    framework = tuple(fmean(run.length_ns for run in runs) / 1e6 for runs in middles)
    return Profile(label, run_id, layers, framework, sum(len(runs) for runs in rounds), about)


def _rounds(spans: Iterable[Span]) -> list[list[_Run]]:
    """The runs with layers, by round."""
    number: dict[str, int] = {}
    runs: dict[tuple[str, int], Span] = {}
    inside: dict[tuple[str, int], list[Span]] = defaultdict(list)
    for span in spans:
        if span.parent < 0:
            number[span.trace_id] = int(span.attributes.get("round", 0))
        elif span.level == "framework":
            runs[span.trace_id, span.number] = span
        elif span.level == "layer" and (parent := (span.trace_id, span.parent)) in runs:
            inside[parent].append(span)
    rounds: dict[int, list[_Run]] = defaultdict(list)
    for key, layers in inside.items():
        ordered = sorted(layers, key=lambda span: (span.start_ns, span.number))
        rounds[number.get(key[0], 0)].append(_Run(runs[key].duration_ns, tuple(ordered)))
    return [rounds[at] for at in sorted(rounds)]


def middle_runs(runs: Sequence[T], length_ns: Callable[[T], int]) -> list[T]:
    """The middle half by length; all of fewer than four."""
    out = len(runs) // 4
    ordered = sorted(runs, key=length_ns)
    return ordered[out : len(ordered) - out]


def _layer(order: int, span: Span, ms_by_round: tuple[float, ...]) -> Layer:
    shapes = span.attributes.get("output_shapes") or []
    shape = tuple(int(size) for size in shapes[0]) if shapes else None
    return Layer(
        order,
        span.name,
        span.type,
        ms_by_round,
        shape,
        span.attributes.get("output_bytes"),
        tuple(span.attributes.get("fused", ())),
    )
