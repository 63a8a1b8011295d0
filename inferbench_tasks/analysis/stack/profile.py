"""A traced model as the analyses see it: its layers' times, which add up with what is between them to a run's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from inferbench_tasks.analysis.stack.kinds import kind_of
from inferbench_tasks.tracing.rounds import middle_runs, rounds_of
from inferbench_tasks.tracing.spans import Span


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
    that layers and what is between them add up exactly; of a layer on a GPU it is the GPU's, see ``Span.work_ns``.
    ``means``: its runtime tells means of all runs alone, of which none can be left out. ``runs``: all of them;
    ``left_out``: how many of these are in no mean. ``about``: model, digest, backend, version, device.
    """

    label: str
    run_id: str
    layers: tuple[Layer, ...]
    framework_ms_by_round: tuple[float, ...]
    runs: int
    about: dict[str, Any] = field(default_factory=dict)
    means: bool = False
    left_out: int = 0

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


def profile_of(spans: Iterable[Span], label: str = "", run_id: str = "", **about: Any) -> Profile | None:
    """The profile that spans make; None where no run in them has layers.

    A layer is the same in two runs if it has the same name, and is the same one of that name in its run. Only the
    outermost ones count: bodies of loops are parts of them.
    """
    rounds = rounds_of(spans)
    if not rounds:
        return None
    middles = [middle_runs(runs) for runs in rounds]
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
                sums[key] += span.work_ns / 1e6 / len(runs)
        times.append(sums)
    layers = tuple(
        _layer(order, span, tuple(each.get(key, 0.0) for each in times))
        for order, (key, span) in enumerate(firsts.items())
    )
    framework = tuple(fmean(run.length_ns for run in runs) / 1e6 for runs in middles)
    every = [run for runs in rounds for run in runs]
    return Profile(
        label,
        run_id,
        layers,
        framework,
        sum(run.count for run in every),
        about,
        means=any(run.means for run in every),
        left_out=len(every) - sum(len(runs) for runs in middles),
    )


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
