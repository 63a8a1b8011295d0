"""In which precision a served model computes, as far as that can be told: what roofs and bounds are of.

What a conversion makes computes in what it was asked for, but for half precision of TFLite. A file of the user's that
is served as it came may keep its weights in less (``stored_precision``), which says less of the arithmetic:

* ONNX's operators are of the type of their weights: one in half precision computes in it where its runtime has such an
  operator. On a CPU ONNX Runtime has few and casts to fp32 around the others, so that nobody here knows;
* OpenVINO is told to compute in what the job asks for (``INFERENCE_PRECISION_HINT``), and LiteRT makes full ones of
  half-precision weights before it uses them, whoever made these;
* of quantised weights nobody here knows: operators may take whole numbers (``QLinearConv``, and what a runtime makes of
  ``QuantizeLinear`` and ``DequantizeLinear`` around one), or the weights become full ones first (``MatMulNBits``).
"""

from __future__ import annotations

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.formats.stored_precision import FULL, called

_HALF = ("fp16", "bf16")


def computed_in(
    asked: str | None, stored: str | None, model_format: str, device: str | None = None
) -> str | None:
    """``asked``: ``convert.precision``; ``stored``: what the model is called; None in results without. ``device``: its
    kind; without it ONNX in half precision is taken to compute in it. None where it is not known.
    """
    stored = called(stored)
    asked = asked or stored or FULL
    as_it_came = asked == FULL and stored not in (None, FULL)
    precision = stored if as_it_came else asked
    if precision in _HALF:
        if model_format == "tflite" or (as_it_came and model_format == "openvino"):
            return FULL
        return None if (model_format, device) == ("onnx", "cpu") else precision
    return None if as_it_came else precision


def computes_as(source: ModelArtifact, served: ModelArtifact, asked: str, device: str) -> bool:
    """Whether a served model computes in what its source did when that answered the requests, on a CPU: else a decision
    on the edge, as of a class's number, may fall otherwise, and nothing is wrong.

    Where nobody knows in what: the same format on a CPU. ``asked``: ``convert.precision``; ``device``: its kind.
    """
    if asked != FULL:
        return False  # something was lost on the way
    expected = computed_in(FULL, source.precision, source.format, "cpu")
    found = computed_in(asked, served.precision, served.format, device)
    if expected is None:
        return found is None and served.format == source.format and device == "cpu"
    return found == expected
