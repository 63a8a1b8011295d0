"""The least that a forward pass can take by the device's datasheet: what is faster was not timed, or not computed."""

from __future__ import annotations

from inferbench_tasks.catalogue import Hardware, find_hardware


def peak_flops(sheet: Hardware, precision: str | None, *, tf32_for_fp32: bool = False) -> float | None:
    """FLOP/s of the datasheet; None where it has none. Dense; a CPU's are of the whole processor.

    ``tf32_for_fp32``: whether products of fp32 may have been computed in TF32, as torch's convolutions are unless it is
    told not to.
    """
    if precision == "fp32":
        wide = (sheet.fp32_tflops or 0.0, (sheet.tf32_tflops or 0.0) if tf32_for_fp32 else 0.0)
        tflops: float | None = max(wide) or None
    elif precision == "tf32":
        tflops = sheet.tf32_tflops
    else:
        tflops = sheet.fp16_tflops
    return tflops * 1e12 if tflops else None


def least_forward_s(device: str | None, precision: str, flop: float | None) -> float | None:
    """Seconds of ``flop`` at the peak of the device by its name; None where the table has not both."""
    sheet = find_hardware(device) if device else None
    peak = peak_flops(sheet, precision) if sheet is not None else None
    return flop / peak if peak and flop else None
