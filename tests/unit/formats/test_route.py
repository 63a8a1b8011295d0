"""The way from one format to another."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import InputError, UnknownKindError
from inferbench_tasks.formats.route import Hop, possible_precisions, route


def test_the_same_format_needs_nothing() -> None:
    """A file that is served as it is, is not converted."""
    assert route("onnx", "onnx") == ()


def test_the_shortest_way_is_taken() -> None:
    """torch reaches OpenVINO over ONNX."""
    assert route("torch", "openvino") == (Hop("torch", "onnx", "fp32"), Hop("onnx", "openvino", "fp32"))


def test_precision_is_reduced_once() -> None:
    """int8 is made in ONNX; what follows keeps it."""
    hops = route("torch", "openvino", "int8")
    assert [hop.precision for hop in hops].count("int8") == 1
    assert [hop.target for hop in hops] == ["onnx", "onnx", "openvino"]


def test_an_impossible_precision_names_the_possible_ones() -> None:
    """The message says what is allowed for the pair."""
    with pytest.raises(InputError, match=r"convert\.precision.*int8; allowed: fp32, fp16, bf16"):
        route("torch", "torchscript", "int8")


def test_an_impossible_pair_names_what_can_be_reached() -> None:
    """scikit-learn never becomes a SavedModel."""
    with pytest.raises(InputError, match=r"convert\.format: sklearn .*allowed: onnx \(fp32, fp16, int8\)"):
        route("sklearn", "savedmodel")


def test_an_unknown_format_lists_the_known() -> None:
    """A typing error is answered with the right words."""
    with pytest.raises(UnknownKindError, match=r"known: .*onnx"):
        route("torch", "onyx")


def test_full_precision_is_possible_for_the_same_format() -> None:
    """A .pt2 file can be kept, but not reduced."""
    assert possible_precisions("pt2", "pt2") == ("fp32",)
