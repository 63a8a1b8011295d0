"""ONNX to ONNX at a lower precision; inputs and outputs keep their types."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import ConversionError

#: A model is int8 if at least this share of its multiply-adds is.
MIN_QUANTISED_RATIO = 0.5


def to_fp16(source: Path, target: Path) -> None:
    """Weights and arithmetic in half precision; ONNX Runtime's CPU kernels widen where they have none."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # values too small for fp16 become its smallest; answers are compared
        model = convert_float_to_float16(onnx.load(source), keep_io_types=True)
    onnx.save(model, target)


def to_int8(source: Path, target: Path, calibration: Arrays) -> None:
    """Weights per channel, activations per tensor, their scales measured on the calibration samples."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._rows: Iterator[Arrays] = iter(
                {name: array[i : i + 1] for name, array in calibration.items()}
                for i in range(len(next(iter(calibration.values()))))
            )

        def get_next(self) -> Any:
            return next(self._rows, None)

    level = logging.getLogger().level
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            logging.getLogger().setLevel(logging.ERROR)  # it logs every tensor by the root logger
            prepared = Path(folder) / "prepared.onnx"
            quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
            quantize_static(
                str(prepared),
                str(target),
                Samples(),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=[
                    "Conv",
                    "MatMul",
                    "Gemm",
                ],  # what multiplies; the rest is cheap in float
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
        finally:
            logging.getLogger().setLevel(level)


def require_quantised(path: Path, source: ModelArtifact) -> None:
    """ConversionError where most of the arithmetic stayed in floats: calling that int8 would be a lie."""
    from inferbench_tasks.formats.costs import quantised_ratio

    ratio = quantised_ratio(path, source.inputs)
    if ratio < MIN_QUANTISED_RATIO:
        raise ConversionError(
            f"{source.name} can't be quantised: only {ratio:.1%} of its multiply-adds would be int8 (LSTM and "
            f"GRU have no quantised form); use fp32 or fp16"
        )
