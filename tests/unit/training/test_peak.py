"""Peaks of datasheets."""

from __future__ import annotations

import pytest

from inferbench_tasks.catalogue import find_hardware
from inferbench_tasks.training.peak import least_forward_s, peak_flops


def test_a_peak_is_that_of_the_precision() -> None:
    """An A40 computes 37.4 TFLOP/s in fp32, and 74.8 where torch takes TF32 for it."""
    sheet = find_hardware("NVIDIA A40")
    assert sheet is not None
    assert peak_flops(sheet, "fp32") == 37.4e12 and peak_flops(sheet, "tf32") == 74.8e12
    assert peak_flops(sheet, "fp32", tf32_for_fp32=True) == 74.8e12
    assert peak_flops(sheet, "fp16") is None, "the table has none of it"


def test_the_least_time_is_the_work_at_the_peak() -> None:
    """15.7 TFLOP in a second on a V100; nothing is known of a device without a datasheet."""
    assert least_forward_s("Tesla V100-SXM2-32GB", "fp32", 15.7e12) == pytest.approx(1.0)
    assert least_forward_s("somebody's", "fp32", 1e12) is None
    assert least_forward_s(None, "fp32", 1e12) is None and least_forward_s("NVIDIA A40", "fp32", None) is None
