"""The least that a forward pass can take by the device's datasheet: what is faster was not timed, or not computed."""

from __future__ import annotations

from typing import Final

from inferbench_tasks.catalogue import Hardware, find_hardware

#: By so much Winograd's F(4 x 4, 3 x 3) needs fewer products than a direct 3 x 3 convolution, of which the FLOP are
#: counted: 6 x 6 for 4 x 4 results instead of 9 x 16 (Lavin and Gray, CVPR 2016). cuDNN and oneDNN use no larger tile.
FEWER_PRODUCTS: Final = 4.0


def peak_flops(sheet: Hardware, precision: str | None, *, tf32_for_fp32: bool = False) -> float | None:
    """FLOP/s of the datasheet (``Hardware.peak``); None where it has none. Dense; a CPU's are of the whole processor.

    ``precision``: None where nobody knows it, and so the highest that the sheet has. ``tf32_for_fp32``: whether
    products of fp32 may have been computed in TF32, as torch's convolutions are unless it is told not to; a device that
    does, and whose sheet does not say how fast, has no peak.
    """
    if precision is None:
        known = (sheet.fp32_tflops, sheet.tf32_tflops, sheet.fp16_tflops)
        highest = max((tflops for tflops in known if tflops), default=None)
        return highest * 1e12 if highest else None
    may = ["fp32", "tf32"] if precision == "fp32" and tf32_for_fp32 else [precision]
    peaks = [sheet.peak(each) for each in may if each == precision or sheet.computes(each)]
    return None if None in peaks else max(tflops for tflops in peaks if tflops) * 1e12


def device_flops(
    device: str | None, precision: str | None, cores: float | None = None, *, tf32_for_fp32: bool = False
) -> float | None:
    """FLOP/s of the datasheet of a device by its name; None where the table has not both.

    ``cores``: of a CPU those that may be used: more than a processor has are several processors. ``tf32_for_fp32``: see
    ``peak_flops``.
    """
    sheet = find_hardware(device) if device else None
    peak = peak_flops(sheet, precision, tf32_for_fp32=tf32_for_fp32) if sheet is not None else None
    if sheet is None or peak is None:
        return None
    processors = cores / sheet.cores if sheet.kind == "cpu" and cores and sheet.cores else 1.0
    return peak * max(1.0, processors)


def least_forward_s(
    device: str | None,
    precision: str | None,
    flop: float | None,
    cores: float | None = None,
    *,
    tf32_for_fp32: bool = False,
) -> float | None:
    """Seconds that no program can do without for ``flop``, as they are counted, see ``device_flops``."""
    peak = device_flops(device, precision, cores, tf32_for_fp32=tf32_for_fp32)
    return flop / (FEWER_PRODUCTS * peak) if peak and flop else None
