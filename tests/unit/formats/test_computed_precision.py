"""In which precision a served model computes, and whether its source did."""

from __future__ import annotations

import pytest

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.formats.computed_precision import computed_in, computes_as


@pytest.mark.parametrize(
    ("asked", "stored", "form", "device", "computed"),
    [
        ("fp32", "fp32", "onnx", "cpu", "fp32"),
        (None, None, "onnx", "cpu", "fp32"),
        ("fp32", "fp16", "onnx", "gpu", "fp16"),
        ("fp16", "fp16", "onnx", "gpu", "fp16"),
        ("fp16", "fp16", "onnx", None, "fp16"),
        ("fp16", "fp16", "onnx", "cpu", None),  # ONNX Runtime casts around most operators
        ("fp32", "fp16", "onnx", "cpu", None),
        ("fp16", "fp16", "openvino", "cpu", "fp16"),
        ("fp32", "fp16", "openvino", "cpu", "fp32"),
        ("fp16", "fp16", "tflite", "cpu", "fp32"),  # weights in half precision, computed with in full
        ("fp32", "fp16", "tflite", "cpu", "fp32"),
        ("int8", "int8", "onnx", "cpu", "int8"),
        ("fp32", "int8", "onnx", "cpu", None),
        ("fp32", "fp16", "torchscript", "cpu", "fp16"),
        ("fp32", "unknown", "torchscript", "cpu", None),
        ("fp16", "unknown", "tflite", "cpu", "fp32"),  # what a conversion was asked for
        ("fp32", "f32", "gguf", "cpu", "fp32"),
        ("fp32", "f16", "gguf", "cpu", "fp16"),
        ("fp32", "q4_0", "gguf", "cpu", None),
    ],
)
def test_what_is_computed_in(
    asked: str | None, stored: str | None, form: str, device: str | None, computed: str | None
) -> None:
    """By what was asked for, what the weights are in, and who computes with them."""
    assert computed_in(asked, stored, form, device) == computed


@pytest.mark.parametrize(
    ("source", "served", "asked", "device", "alike"),
    [
        (("fp32", "onnx"), ("fp32", "onnx"), "fp32", "cpu", True),
        (("fp32", "onnx"), ("fp32", "openvino"), "fp32", "gpu", True),
        (("fp32", "onnx"), ("fp16", "onnx"), "fp16", "cpu", False),
        (("fp32", "savedmodel"), ("fp16", "tflite"), "fp16", "cpu", False),  # its weights were rounded
        (("fp16", "onnx"), ("fp16", "onnx"), "fp32", "cpu", True),
        (("fp16", "onnx"), ("fp16", "onnx"), "fp32", "gpu", False),
        (("fp16", "onnx"), ("fp16", "openvino"), "fp32", "cpu", False),
        (("int8", "onnx"), ("int8", "onnx"), "fp32", "cpu", True),
        (("int8", "onnx"), ("int8", "openvino"), "fp32", "cpu", False),
        (("int8", "tflite"), ("int8", "tflite"), "fp32", "cpu", True),
        (("unknown", "torchscript"), ("unknown", "torchscript"), "fp32", "cpu", True),
        (("unknown", "torchscript"), ("unknown", "torchscript"), "fp32", "gpu", False),
    ],
)
def test_class_numbers_are_the_sources_where_both_compute_alike(
    source: tuple[str, str], served: tuple[str, str], asked: str, device: str, alike: bool
) -> None:
    """Where nobody knows in what, the same format on a CPU does: it is what answered the requests."""

    def model(precision: str, form: str) -> ModelArtifact:
        return ModelArtifact(
            name="m",
            framework="onnx",
            format=form,
            precision=precision,
            path="m",
            digest="d",
            inputs=(),
            outputs=(),
        )

    assert computes_as(model(*source), model(*served), asked, device) is alike
