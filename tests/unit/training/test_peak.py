"""Peaks of datasheets."""

from __future__ import annotations

import pytest

from inferbench_tasks.catalogue import find_hardware, hardware_rows
from inferbench_tasks.training.peak import device_flops, least_forward_s, peak_flops


def test_a_peak_is_that_of_the_precision() -> None:
    """An A40 computes 37.4 TFLOP/s in fp32, and 74.8 where torch takes TF32 for it."""
    sheet = find_hardware("NVIDIA A40")
    assert sheet is not None
    assert peak_flops(sheet, "fp32") == 37.4e12 and peak_flops(sheet, "tf32") == 74.8e12
    assert peak_flops(sheet, "fp32", tf32_for_fp32=True) == 74.8e12
    assert peak_flops(sheet, "fp16") is None, "the table has none of it"


def test_a_peak_that_a_device_may_have_and_nobody_knows_is_none() -> None:
    """An H100 has fp32 of 67 TFLOP/s and does TF32: of a table that lacks its peak there is no bound for what may be in
    it. A V100 has neither TF32 nor bf16, so that its fp32 is the bound, and nothing is said of bf16; int8 is never that
    of fp16.
    """
    hopper, volta = find_hardware("NVIDIA H100 80GB HBM3"), find_hardware("Tesla V100-SXM2-32GB")
    assert hopper is not None and volta is not None
    assert peak_flops(hopper, "fp32") == 67e12
    assert peak_flops(hopper.model_copy(update={"tf32_tflops": None}), "fp32", tf32_for_fp32=True) is None
    assert peak_flops(volta, "fp32", tf32_for_fp32=True) == 15.7e12
    assert peak_flops(volta, "bf16") is None and peak_flops(volta, "fp16") == 125e12
    assert peak_flops(hopper, "int8") == 1979e12 and peak_flops(volta, None) == 125e12


@pytest.mark.parametrize(
    ("device", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", 494.5),
        ("NVIDIA H100 PCIe", 378),
        ("NVIDIA H100 NVL", 417.5),
        ("NVIDIA H200", 494.5),
        ("NVIDIA H200 NVL", 417.5),
        ("NVIDIA L4", 60),
        ("NVIDIA A10G", 35),
    ],
)
def test_tf32_is_half_of_what_the_datasheet_has_with_sparsity(device: str, tflops: float) -> None:
    """989, 756, 835, 989, 835 and 120 with it; the A10G's has both. It bounds fp32 where TF32 may stand for it."""
    assert device_flops(device, "tf32") == tflops * 1e12
    assert device_flops(device, "fp32", tf32_for_fp32=True) == tflops * 1e12


def test_every_gpu_of_the_table_that_computes_tf32_has_its_peak() -> None:
    """And half of that of fp16, which the same units compute, to a hundredth."""
    for row in hardware_rows():
        if row.kind != "gpu" or not row.computes("tf32"):
            continue
        peak = row.peak("tf32")
        assert peak is not None, row.name
        if row.fp16_tflops is not None:
            assert peak == pytest.approx(row.fp16_tflops / 2, rel=0.01), row.name


def test_the_least_time_is_the_work_at_the_peak() -> None:
    """15.7 TFLOP on a V100 are a second, a quarter of it by Winograd's products; nothing is known of a device without a
    datasheet.
    """
    assert least_forward_s("Tesla V100-SXM2-32GB", "fp32", 15.7e12) == pytest.approx(0.25)
    assert least_forward_s("somebody's", "fp32", 1e12) is None
    assert least_forward_s(None, "fp32", 1e12) is None and least_forward_s("NVIDIA A40", "fp32", None) is None


def test_more_cores_than_a_processor_has_are_several_processors() -> None:
    """Of the E5-2698 v4 20 cores make 1.408 TFLOP/s; 40 are two sockets, two are a part of one, whose peak stays."""
    name = "Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz"
    assert [device_flops(name, "fp32", cores) for cores in (None, 2, 20, 40)] == [
        1.408e12, 1.408e12, 1.408e12, 2.816e12,
    ]  # fmt: skip
    assert least_forward_s(name, "fp32", 4 * 1.408e12, 40) == pytest.approx(0.5)
    assert device_flops("NVIDIA A40", "fp32", 1000) == 37.4e12, "a GPU's cores are none of the host's"
