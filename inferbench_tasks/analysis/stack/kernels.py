"""The kernels of a traced model: what its layers run below all operators, each with the time that is its own.

On a GPU kernels are what ran there: its kernels, copies and sets of memory, each of the layer that asked for it; what
the CPU did meanwhile, the calls that asked for them included, is none. On a CPU kernels are oneDNN's primitives, and
the operators of ATen and nodes of OpenVINO that none of these lies in; of such an operator its own time is what is left
without the operators inside it, its dispatch included, for nobody tells that apart. What is around oneDNN's primitives
(choosing them, memory, reshaping) is no kernel. A layer's kernels and what is around them add up to it, unless kernels
run side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from inferbench_tasks.analysis.ceilings import Ceilings
from inferbench_tasks.analysis.stack.kinds import kind_of
from inferbench_tasks.analysis.stack.work import Work
from inferbench_tasks.tracing.own_times import own_times
from inferbench_tasks.tracing.rounds import middle_runs, rounds_of
from inferbench_tasks.tracing.spans import GPU_NS, HARDWARE, Span

#: Kinds of operators that multiply no matrices: only that is counted (see ``formats.costs``).
_WITHOUT = frozenset(
    ("addition", "product", "activation", "normalisation", "pooling", "reduction", "softmax", "lookup", "layout",
     "joining", "quantisation")
)  # fmt: skip
#: Operators of ATen that look at memory otherwise, or take some: no FLOP, no byte.
_NOTHING = frozenset(
    ("_local_scalar_dense", "_nnpack_available", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "as_strided_",
     "detach", "detach_", "empty", "empty_like", "empty_strided", "expand", "flatten", "item", "lift_fresh", "permute",
     "reshape", "resize_", "resolve_conj", "resolve_neg", "result_type", "select", "set_", "slice", "split", "squeeze",
     "t", "to", "transpose", "unsqueeze", "view")
)  # fmt: skip
#: Operators of ATen that multiply no matrices, whose kinds layers do not have; without the underscores of variants.
_ALSO_WITHOUT = frozenset(
    ("arange", "clamp_max", "eq", "exp", "fill", "ge", "gt", "le", "lt", "masked_fill", "max_pool2d_with_indices", "ne",
     "neg", "ones", "pow", "rsqrt", "rsub", "sqrt", "sub", "threshold", "to_copy", "where", "zero", "zeros")
)  # fmt: skip


#: Sums of means differ by less, from rounding alone.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Kernel:
    """``layer``: the place of its layer. ``ms_by_round``: its own time; ``flops``, ``bytes``, ``data_type`` (what it
    multiplies in): None where not known."""

    order: int
    layer: int
    name: str
    type: str
    library: str
    ms_by_round: tuple[float, ...]
    flops: int | None
    bytes: int | None
    data_type: str | None = None

    @property
    def ms(self) -> float:
        """The mean of the rounds."""
        return fmean(self.ms_by_round)

    @property
    def work(self) -> Work:
        """What it does in that time."""
        return Work(self.ms, self.flops, self.bytes, self.data_type)


@dataclass(frozen=True)
class RunLayer:
    """A layer in the runs whose kernels are told, which take longer than those without that instrument."""

    order: int
    name: str
    type: str
    ms: float


@dataclass(frozen=True)
class Kernels:
    """``framework_ms``: a run with these instruments on. ``ceilings``: of one core of the machine that ran it, None of
    models that ran on several: how far memory's bytes/s grow with cores was not measured. ``no_ceilings``: why there
    are none. ``lacking``: what the trace says to be missing of them."""

    kernels: tuple[Kernel, ...]
    layers: tuple[RunLayer, ...]
    framework_ms: float
    ceilings: Ceilings | None = None
    no_ceilings: str = ""
    lacking: str = ""
    #: How long any of a GPU's kernels ran; None on a CPU, whose kernels' own times have nothing twice.
    busy_ms: float | None = None

    @property
    def ms(self) -> float:
        """All kernels together; those that a GPU ran side by side on several streams count once."""
        return self.added_ms if self.busy_ms is None else self.busy_ms

    @property
    def added_ms(self) -> float:
        """The kernels' own times added up."""
        return sum(kernel.ms for kernel in self.kernels)

    @property
    def side_by_side(self) -> bool:
        """Whether their own times add up to more than the time in which any of them ran."""
        return self.added_ms > self.ms * (1 + _ROUNDING)

    def by_layer(self) -> list[tuple[RunLayer, list[Kernel]]]:
        """Each layer with its kernels, both in their order."""
        inside: dict[int, list[Kernel]] = defaultdict(list)
        for kernel in self.kernels:
            inside[kernel.layer].append(kernel)
        return [(layer, inside[layer.order]) for layer in self.layers]


def kernels_of(
    spans: Iterable[Span], ceilings: Mapping[str, Any] | None = None, threads: int | None = 1
) -> Kernels | None:
    """The kernels that spans of the library level make; None where they have none. ``ceilings``: as a trace has them;
    ``threads``: of the model, None where that is not known.

    Times are means over the middle half of each round's runs, as those of layers are (``profile``).
    """
    rounds = [own for runs in rounds_of(spans) if (own := [run for run in runs if run.instrumented])]
    if not rounds:
        return None
    middles = [middle_runs(runs) for runs in rounds]
    gpu = any(GPU_NS in layer.attributes for runs in middles for run in runs for layer in run.layers)
    layer_ms: dict[_Key, list[float]] = defaultdict(lambda: [0.0] * len(middles))
    kernel_ms: dict[tuple[_Key, _Key], list[float]] = defaultdict(lambda: [0.0] * len(middles))
    layers: dict[_Key, Span] = {}
    firsts: dict[tuple[_Key, _Key], _Primitive] = {}
    busy_ms = [0.0] * len(middles)
    for at, runs in enumerate(middles):
        for run in runs:
            every: list[_Primitive] = []
            for layer_key, layer in _numbered(run.layers):
                layers.setdefault(layer_key, layer)
                layer_ms[layer_key][at] += layer.work_ns / 1e6 / len(runs)
                found = _on_gpu(layer, run.inside) if gpu else _primitives(layer, run.inside)
                every += found
                for key, primitive in _numbered(found):
                    firsts.setdefault((layer_key, key), primitive)
                    kernel_ms[layer_key, key][at] += primitive.own_ns / 1e6 / len(runs)
            busy_ms[at] += _busy_ns(every) / 1e6 / len(runs) if gpu else 0
    places = {key: order for order, key in enumerate(layers)}
    kernels = tuple(
        Kernel(
            order,
            places[layer_key],
            primitive.name,
            primitive.span.type,
            str(primitive.span.attributes.get("library", "")),
            tuple(kernel_ms[layer_key, key]),
            *_work(primitive),
            primitive.span.attributes.get("data_type"),
        )
        for order, ((layer_key, key), primitive) in enumerate(firsts.items())
    )
    known = dict(ceilings or {})
    problem = known.pop("problem", "" if known else "it was not measured")
    if threads != 1 and known:
        known = {}
        ran = "a number of threads that is not known" if threads is None else f"{threads} threads"
        problem = f"they are of one core, and the model ran on {ran}, whose bytes/s together nobody measured"
    return Kernels(
        kernels,
        tuple(RunLayer(places[key], s.name, s.type, fmean(layer_ms[key])) for key, s in layers.items()),
        fmean(fmean(run.length_ns for run in runs) / 1e6 for runs in middles),
        Ceilings(**known) if known else None,
        problem,
        busy_ms=fmean(busy_ms) if gpu else None,
    )


#: A name, and which of that name.
_Key = tuple[str, int]


@dataclass(frozen=True)
class _Primitive:
    """``counted``: what is inside it has FLOPs that are known, so that its own time has none."""

    span: Span
    own_ns: int
    counted: bool

    @property
    def name(self) -> str:
        """Implementations of oneDNN are called alike in all kinds of primitives."""
        span = self.span
        return f"{span.type} {span.name}" if span.attributes.get("library") == "oneDNN" else span.name


_Named = TypeVar("_Named", Span, _Primitive)


def _numbered(items: Iterable[_Named]) -> Iterable[tuple[_Key, _Named]]:
    """Each with its name, and how many of that name were before it."""
    seen: dict[str, int] = defaultdict(int)
    for item in items:
        yield (item.name, seen[item.name]), item
        seen[item.name] += 1


def _primitives(around: Span, inside: Mapping[int, list[Span]]) -> list[_Primitive]:
    """The kernels within a span, in their order; of a layer without those of the layers in it."""
    found: list[_Primitive] = []
    for span in inside.get(around.number, ()):
        if span.level == "layer":
            continue
        within = _primitives(span, inside)
        if not any(each.span.attributes.get("library") == "oneDNN" for each in within):
            counted = any(each.span.attributes.get("flops") for each in within)
            found.append(_Primitive(span, _own_ns(span, inside.get(span.number, ())), counted))
        found += within
    return found


def _on_gpu(around: Span, inside: Mapping[int, list[Span]]) -> list[_Primitive]:
    """What the GPU did for a span and for the layers in it, in its order there: all of its time is its own, for nothing
    lies in it."""
    found: list[_Primitive] = []
    for span in inside.get(around.number, ()):
        if span.level == HARDWARE:
            found.append(_Primitive(span, span.duration_ns, False))
        found += _on_gpu(span, inside)
    return sorted(found, key=lambda each: each.span.start_ns)


def _busy_ns(kernels: Iterable[_Primitive]) -> int:
    """The time in which any of them ran."""
    busy_ns = until_ns = 0
    for span in sorted((each.span for each in kernels), key=lambda span: span.start_ns):
        busy_ns += max(0, span.end_ns - max(span.start_ns, until_ns))
        until_ns = max(until_ns, span.end_ns)
    return busy_ns


def _own_ns(span: Span, within: Sequence[Span]) -> int:
    """The time in which none of the spans in it ran: side by side on several threads they count once."""
    if not within:
        return span.duration_ns
    rows = [span, *within]
    starts, lengths = (np.array([getattr(each, of) for each in rows]) for of in ("start_ns", "duration_ns"))
    return int(own_times(starts, lengths, np.array([-1, *[0] * len(within)]))[0])


def _work(primitive: _Primitive) -> tuple[int | None, int | None]:
    """FLOPs and bytes: as the source tells them; else what is known of operators of that kind."""
    known, type_ = primitive.span.attributes, primitive.span.type
    if "flops" in known or "bytes" in known or known.get("library") == "oneDNN":
        return known.get("flops"), known.get("bytes")
    if type_ in _NOTHING:
        return 0, 0
    without = kind_of(type_) in _WITHOUT or type_.strip("_") in _ALSO_WITHOUT
    return (0 if primitive.counted or without else None), None
