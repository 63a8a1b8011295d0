"""How far a server's answer may be from its own answer to the same sample alone: what another order of sums may do.

Which requests share a batch decides which kernel runs, and in which order it sums. Nothing else may differ: what a
conversion loses is lost in both answers, so that its bound (0.3 at int8) has no place here.
"""

from __future__ import annotations

#: Of the largest value of all samples, by the precision that is served.
#:
#: fp32: answers of two runtimes to the same samples were 1.6e-5 apart at most (docs/explanation/serving-figures.md).
#: fp16, bf16: a sum in another order may be rounded to the neighbour. Rounding everything moved the answers of two
#: large networks by 5.4e-3 and 4.5e-2 at most (there too); two that are rounded otherwise are twice that apart at most.
#: int8: weights and scales are the same, and sums of whole numbers exact; a value on the edge of a step may be rounded
#: to the next one, 1/255 of its tensor's range. Five steps: by this bound batches of quantised ONNX files are proved.
NOISE_RATIO = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1, "int8": 2e-2}
#: fp32 on a GPU, where products may have ten bits of mantissa (TF32): what is allowed between it and its source anyway.
GPU_FP32_RATIO = 1e-3


def noise_ratio(precision: str, device: str) -> float:
    """The bound on max|under load - alone| / max|alone|. ``device``: its kind, ``cpu`` or ``gpu``."""
    return GPU_FP32_RATIO if (precision, device) == ("fp32", "gpu") else NOISE_RATIO[precision]
