"""A GPU's throughput from its datasheet and what other GPUs reach of theirs.

The roof of a device is what its datasheet allows (Williams, Waterman and Patterson 2009): min(peak FLOP/s, intensity x
bytes/s) / FLOP of a sample, in samples/s; the intensity is that of ``charts.roofline``, with the weights read once per
request. Each measured GPU reaches a share e of its roof. Over n of them the logarithm of e has the mean m and the
standard deviation s; another GPU is foretold roof x exp(m), within

    exp(+- t(0.975, n - 1) x sqrt(s^2 (1 + 1/n) + DRIFT_RATIO^2)),

the prediction interval of one more, with what a run differs by from run to run. That needs three GPUs, and one among
them that the same of both bounds: from what is bound by memory nothing follows for arithmetic. Processors have no such
prediction: an instance has a share of a product, and shares its memory's bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.certainty import DRIFT_RATIO
from inferbench_tasks.analysis.charts.roofline import BYTES_PER_WEIGHT, intensity
from inferbench_tasks.catalogue import Hardware, find_hardware

#: GPUs with a datasheet on which the same has to be measured.
LEAST = 3


@dataclass(frozen=True)
class Measured:
    """A GPU that was measured: its name, samples/s, and the result's ``model``."""

    device: str
    per_s: float
    model: Mapping[str, Any]


@dataclass(frozen=True)
class Foretold:
    """Samples/s with the 95% interval, and what it rests on."""

    per_s: float
    interval: tuple[float, float]
    rests_on: str


@dataclass(frozen=True)
class _Roof:
    per_s: float
    bound: str


def foretold(
    device: str,
    measured: Sequence[Measured],
    precision: str,
    batch_size: int,
    memory_gb: float | None = None,
) -> Foretold | str:
    """Of a device by its name in the catalogue; why nothing can be said. ``memory_gb``: of that very one, else its
    datasheet's.
    """
    sheet = _sheet(device)
    if sheet is None or not _peak(sheet, precision) or not sheet.bandwidth_gb_s:
        return f"configs/hardware.yaml has no bandwidth and {precision} peak of it"
    reached: dict[str, tuple[float, str]] = {}
    for one in measured:
        own = _sheet(one.device)
        roof = _roof(own, one.model, precision, batch_size) if own else None
        if own is not None and roof is not None:
            share = one.per_s / roof.per_s
            if share > 1:
                return (
                    f"{own.name} reached {share:.0%} of its roof: the FLOPs, the bytes or the datasheet are not of "
                    "what ran there"
                )
            reached[own.name] = max(reached.get(own.name, (0.0, roof.bound)), (share, roof.bound))
    if len(reached) < LEAST:
        return (
            f"a roofline needs this load on {LEAST} GPUs with a datasheet and the model's FLOPs and bytes; there are "
            f"{len(reached)}"
        )
    model = measured[0].model
    roof = _roof(sheet, model, precision, batch_size)
    if roof is None:
        return "the model's FLOPs and bytes are not known"
    if roof.bound not in {bound for _, bound in reached.values()}:
        return f"there it would be bound by {roof.bound}, which it is on no GPU that was measured"
    memory_gb = memory_gb or sheet.memory_gb
    if memory_gb and (model.get("parameters") or 0) * BYTES_PER_WEIGHT[precision] > memory_gb * 1e9:
        return f"the model's weights do not fit into its {memory_gb:g} GB"
    return _by(reached, roof, sheet)


def _by(reached: Mapping[str, tuple[float, str]], roof: _Roof, sheet: Hardware) -> Foretold:
    from scipy.special import stdtrit

    logs = [math.log(share) for share, _ in reached.values()]
    n = len(logs)
    mean = sum(logs) / n
    variance = sum((value - mean) ** 2 for value in logs) / (n - 1)
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt(variance * (1 + 1 / n) + DRIFT_RATIO**2)
    per_s = roof.per_s * math.exp(mean)
    shares = ", ".join(f"{name} {share:.1%}" for name, (share, _) in sorted(reached.items()))
    return Foretold(
        per_s,
        (per_s * math.exp(-half), per_s * math.exp(half)),
        f"{math.exp(mean):.1%} of the roof of {sheet.name} ({roof.bound}-bound); measured: {shares}",
    )


def _sheet(device: str) -> Hardware | None:
    """The datasheet of that GPU; None where there is none."""
    sheet = find_hardware(device)
    return sheet if sheet is not None and sheet.kind == "gpu" else None


def _peak(sheet: Hardware, precision: str) -> float | None:
    """FLOP/s, or operations/s of int8."""
    value = sheet.peak(precision)
    return value * 1e12 if value else None


def _roof(sheet: Hardware, model: Mapping[str, Any], precision: str, batch_size: int) -> _Roof | None:
    peak = _peak(sheet, precision)
    of_model = intensity(
        model.get("flops"), model.get("bytes"), model.get("parameters"), precision, batch_size
    )
    if peak is None or not sheet.bandwidth_gb_s or of_model is None:
        return None
    by_memory = of_model * sheet.bandwidth_gb_s * 1e9
    flops = float(model["flops"])
    return _Roof(min(peak, by_memory) / flops, "memory" if by_memory < peak else "arithmetic")
