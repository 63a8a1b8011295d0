"""What kernels do: time, FLOPs, bytes, and what follows of them against what the machine reaches.

Operational intensity is FLOP by byte; a kernel whose intensity is below the machine's (its FLOP/s by its bytes/s) is
bound by memory, the others by arithmetic (Williams, Waterman and Patterson 2009). FLOPs and bytes are those of the
problem, each operand moved once: caches may save some of it, so attained bytes/s may lie above the memory's. The
machine's FLOP/s are of fp32: what is calculated in another type is not judged by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.ceilings import Ceilings

#: The type whose products the machine's FLOP/s were measured with, as oneDNN calls it.
CEILINGS_TYPE = "f32"


@dataclass(frozen=True)
class Work:
    """``flops``, ``bytes``: None where they are not known. ``data_type``: what matrices are multiplied in, None where
    that is not known or not the same in all parts."""

    ms: float
    flops: int | None
    bytes: int | None
    data_type: str | None = None

    @property
    def flop_per_byte(self) -> float | None:
        """The operational intensity."""
        return self.flops / self.bytes if self.flops is not None and self.bytes else None

    @property
    def gflop_per_s(self) -> float | None:
        """What was attained."""
        return self.flops / self.ms / 1e6 if self.flops is not None and self.ms > 0 else None

    @property
    def gb_per_s(self) -> float | None:
        """What was moved, if every operand was."""
        return self.bytes / self.ms / 1e6 if self.bytes is not None and self.ms > 0 else None

    def bound(self, ceilings: Ceilings | None) -> str | None:
        """``memory`` or ``arithmetic``; None where that is not known, and of products in another type than fp32."""
        intensity = self.flop_per_byte
        if intensity is None or ceilings is None or (self.flops and self.data_type != CEILINGS_TYPE):
            return None
        return "memory" if intensity < ceilings.gflops / ceilings.gb_s else "arithmetic"

    def of_roof_ratio(self, ceilings: Ceilings | None) -> float | None:
        """What was attained by what the intensity allows on one core; above 1 the ceiling was measured too low, or
        caches saved the memory."""
        if ceilings is None or not self.flops or self.bound(ceilings) is None:
            return None
        if self.flop_per_byte is None or self.gflop_per_s is None:
            return None
        return self.gflop_per_s / min(ceilings.gflops, self.flop_per_byte * ceilings.gb_s)

    def columns(self, ceilings: Ceilings | None) -> dict[str, Any]:
        """For a table."""
        return {
            "data_type": self.data_type,
            "flops": self.flops,
            "bytes": self.bytes,
            "flop_per_byte": self.flop_per_byte,
            "gflop_per_s": self.gflop_per_s,
            "gb_per_s": self.gb_per_s,
            "bound": self.bound(ceilings),
        }


def total(parts: Iterable[Work]) -> Work:
    """All together; what is not known of one is not known of all."""
    known = list(parts)
    flops, moved = [each.flops for each in known], [each.bytes for each in known]
    types = {each.data_type for each in known if each.flops}
    return Work(
        sum(each.ms for each in known),
        None if None in flops else sum(each or 0 for each in flops),
        None if None in moved else sum(each or 0 for each in moved),
        types.pop() if len(types) == 1 else None,
    )
