"""A GPU's throughput from its datasheet and what other GPUs reach of theirs.

The roof of a device is what its datasheet allows (Williams, Waterman and Patterson 2009): min(peak FLOP/s, intensity x
bytes/s) / FLOP of a sample, in samples/s; the intensity is that of ``analysis.intensity``, with the weights read once
per request. Each measured GPU reaches a share e of its own roof, by the FLOPs and bytes of the file that ran there.
Over n of them the logarithm of e has the mean m and the standard deviation s; another GPU is predicted roof x exp(m),
within

    exp(+- t(0.975, n - 1) x sqrt(s^2 (1 + 1/n) + DRIFT_RATIO^2)),

the prediction interval of one more, with what a run differs by from run to run. That needs three GPUs, and one among
them that the same of both bounds: from what is bound by memory nothing follows for arithmetic. Processors have no such
prediction: an instance has a share of a product, and shares its memory's bandwidth. Where the measured GPUs ran files
of different FLOPs or bytes, nobody knows which the other would run, and there is none either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.certainty import DRIFT_RATIO
from inferbench_tasks.analysis.intensity import BYTES_PER_WEIGHT, intensity
from inferbench_tasks.catalogue import Hardware, find_hardware
from inferbench_tasks.formats.stored_precision import FULL

#: GPUs with a datasheet on which the same has to be measured.
LEAST = 3
#: What a sample takes, of a result's ``model``, and its unit.
_WORK = {"flops": "FLOP", "bytes": "bytes", "parameters": "parameters"}


@dataclass(frozen=True)
class Measured:
    """A GPU that was measured: its name, samples/s, and the result's ``model``, whose precision is its weights'."""

    device: str
    throughput_samples_per_s: float
    model: Mapping[str, Any]


@dataclass(frozen=True)
class Prediction:
    """Samples/s with the 95% interval, and what it rests on."""

    throughput_samples_per_s: float
    interval: tuple[float, float]
    rests_on: str


@dataclass(frozen=True)
class _Roof:
    throughput_samples_per_s: float
    bound: str


def predicted(
    device: str,
    measured: Sequence[Measured],
    precision: str | None,
    batch_size: int,
    memory_gb: float | None = None,
) -> Prediction | str:
    """Of a device by its name in the catalogue; why nothing can be said. ``precision``: what is computed in, None where
    that is not known, or not one; ``memory_gb``: of that very one, else its datasheet's.
    """
    if precision is None:
        return "in which precision its files compute is not known, as of what came quantised, or not one"
    sheet = _sheet(device)
    if sheet is None or not _peak(sheet, precision) or not sheet.bandwidth_gb_s:
        return f"configs/hardware.yaml has no bandwidth and {precision} peak of it"
    reached: dict[str, tuple[float, str]] = {}
    works: dict[tuple[Any, ...], tuple[str, Mapping[str, Any]]] = {}
    for one in measured:
        own = _sheet(one.device)
        roof = _roof(own, one.model, precision, batch_size) if own else None
        if own is not None and roof is not None:
            share = one.throughput_samples_per_s / roof.throughput_samples_per_s
            if share > 1:
                return (
                    f"{own.name} reached {share:.0%} of its roof: the FLOPs, the bytes or the datasheet are not of "
                    "what ran there"
                )
            reached[own.name] = max(reached.get(own.name, (0.0, roof.bound)), (share, roof.bound))
            works.setdefault(tuple(one.model.get(name) for name in _WORK), (own.name, one.model))
    if len(reached) < LEAST:
        return (
            f"a roofline needs this load on {LEAST} GPUs with a datasheet and the model's FLOPs and bytes; there are "
            f"{len(reached)}"
        )
    if len(works) > 1:
        each = "; ".join(f"{name} {_work_words(model)}" for name, model in works.values())
        return f"the GPUs ran files of different work, and which another would run is not known: {each}"
    ((_, model),) = works.values()
    roof = _roof(sheet, model, precision, batch_size)
    if roof is None:
        return "the model's FLOPs and bytes are not known"
    if roof.bound not in {bound for _, bound in reached.values()}:
        return f"there it would be bound by {roof.bound}, which it is on no GPU that was measured"
    memory_gb = memory_gb or sheet.memory_gb
    if memory_gb and (model.get("parameters") or 0) * _weight_bytes(model, precision) > memory_gb * 1e9:
        return f"the model's weights do not fit into its {memory_gb:g} GB"
    return _by(reached, roof, sheet)


def _work_words(model: Mapping[str, Any]) -> str:
    return ", ".join(f"{model[name]:.4g} {_WORK[name]}" for name in _WORK if model.get(name) is not None)


def _weight_bytes(model: Mapping[str, Any], precision: str) -> float:
    return BYTES_PER_WEIGHT.get(model.get("precision") or precision, BYTES_PER_WEIGHT[FULL])


def _by(reached: Mapping[str, tuple[float, str]], roof: _Roof, sheet: Hardware) -> Prediction:
    from scipy.special import stdtrit

    logs = [math.log(share) for share, _ in reached.values()]
    n = len(logs)
    mean = sum(logs) / n
    variance = sum((value - mean) ** 2 for value in logs) / (n - 1)
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt(variance * (1 + 1 / n) + DRIFT_RATIO**2)
    samples_per_s = roof.throughput_samples_per_s * math.exp(mean)
    shares = ", ".join(f"{name} {share:.1%}" for name, (share, _) in sorted(reached.items()))
    return Prediction(
        samples_per_s,
        (samples_per_s * math.exp(-half), samples_per_s * math.exp(half)),
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
        model.get("flops"),
        model.get("bytes"),
        model.get("parameters"),
        model.get("precision") or precision,
        batch_size,
    )
    if peak is None or not sheet.bandwidth_gb_s or of_model is None:
        return None
    by_memory = of_model * sheet.bandwidth_gb_s * 1e9
    flops = float(model["flops"])
    return _Roof(min(peak, by_memory) / flops, "memory" if by_memory < peak else "arithmetic")
