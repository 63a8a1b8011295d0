"""In which precision a served model computes, as far as that can be told: what roofs and bounds are of.

What a conversion makes computes in what it was asked for. A file of the user's that is served as it came may keep its
weights in less (``stored_precision``), which says less of the arithmetic:

* ONNX's operators are of the type of their weights, so that one in half precision computes in it;
* OpenVINO is told to compute in what the job asks for (``INFERENCE_PRECISION_HINT``), and LiteRT makes full ones of
  half-precision weights before it uses them;
* of quantised weights nobody here knows: operators may take whole numbers (``QLinearConv``, and what a runtime makes of
  ``QuantizeLinear`` and ``DequantizeLinear`` around one), or the weights become full ones first (``MatMulNBits``).
"""

from __future__ import annotations

from inferbench_tasks.formats.stored_precision import FULL

_HALF = ("fp16", "bf16")
#: Formats whose runtimes compute with half-precision weights as the job asks, in full precision.
_WIDENED = ("openvino", "tflite")


def computed_in(asked: str | None, stored: str | None, model_format: str) -> str | None:
    """``asked``: ``convert.precision``; ``stored``: what the model is called; None in results without. None where it is
    not known.
    """
    asked = asked or stored or FULL
    if asked != FULL or stored in (None, FULL):
        return asked
    if stored in _HALF:
        return FULL if model_format in _WIDENED else stored
    return None
