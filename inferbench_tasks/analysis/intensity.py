"""Where a model lies in a roofline: FLOP by byte, and the FLOP/s that a run of it attained.

Williams, Waterman and Patterson 2009. Attained: FLOP of a run of the model over the time that the inference of its
requests took in the server; intensity: FLOP over bytes moved, with the weights read once per run. A server that merges
requests runs more samples at once than a request has: their mean number is measured (``metrics.stages``), and a run of
such a server that nobody counted has no place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.formats.stored_precision import UNKNOWN

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

#: By the precision that weights are stored in.
BYTES_PER_WEIGHT = {
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0, "fp8": 1.0, "int4": 0.5, "fp4": 0.5, "nf4": 0.5, "int2": 0.25,
}  # fmt: skip


def position(view: RunView) -> tuple[float, float] | None:
    """(FLOP/byte, GFLOP/s) of a run, None where something is not known."""
    model = view.result.model if view.result else None
    inference_ms = (view.figure("stages_ms.inference") or {}).get("mean")
    merges = (view.job.get("serve") or {}).get("batching") is not None
    batch = view.figure("stages_ms.batch_samples_mean") or (None if merges else view.samples_per_request)
    if model is None or not model.flops or not model.bytes or not inference_ms or not batch:
        return None
    place = intensity(model.flops, model.bytes, model.parameters, model.precision or "fp32", batch)
    return None if place is None else (place, model.flops * batch / (inference_ms / 1e3) / 1e9)


def intensity(
    flops: int | None, moved_bytes: int | None, parameters: int | None, precision: str, batch: float
) -> float | None:
    """FLOP/byte of a run over ``batch`` samples; FLOPs and bytes are those of one, ``precision`` is its weights'. None
    where they are not known.
    """
    if not flops or not moved_bytes or precision == UNKNOWN:
        return None
    weights = (parameters or 0) * BYTES_PER_WEIGHT.get(precision, 4.0)
    moved = max(moved_bytes - weights, 0) * batch + min(weights, moved_bytes)
    return flops * batch / moved
