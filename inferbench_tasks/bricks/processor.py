"""The kind of processor that a graph was optimised for."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def instruction_set(cpuinfo: Path = CPUINFO) -> str:
    """``x86_64-avx512``, ``x86_64-avx2``, ``x86_64``, ``aarch64`` ...: what decides on blocked layouts.

    ONNX Runtime blocks 16 channels with AVX-512, 8 with less, and none elsewhere. Where the flags can't be read the
    machine's name stands alone.
    """
    machine = platform.machine().lower()
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        return machine
    flags = {flag for line in text.splitlines() if line.startswith("flags") for flag in line.split()}
    for name, needed in (("avx512", {"avx512f"}), ("avx2", {"avx2", "fma"})):
        if needed <= flags:
            return f"{machine}-{name}"
    return machine
