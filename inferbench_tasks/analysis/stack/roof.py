"""What both rooflines, of kernels and of layers, have as tables, say and show."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject
from inferbench_tasks.analysis.stack.figures import roofline
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.work import Work

ROOF = (
    "flop_per_byte = flops / bytes; gflop_per_s = flops / ms; of_roof_ratio: that by min(FLOP/s, flop_per_byte * "
    "bytes/s) of one core, as measured on the machine that was traced (above 1: caches saved bytes, or the measured "
    "ceiling is too low); its FLOP/s are of fp32, so what is calculated in another data_type has neither bound nor "
    "ratio"
)


class Roofline(KernelAnalysis):
    """Works against what their operational intensity allows; those without FLOPs have no place on it.

    ``one``, ``many``: what the works are of; the column that calls each is ``one``.
    """

    one: ClassVar[str]
    many: ClassVar[str]
    needs_work = True
    needs_ceilings = True

    @abstractmethod
    def works(self, kernels: Kernels) -> Sequence[tuple[str, Work]]:
        """Each with its name."""

    def of(self, kernels: Kernels) -> Rows:
        """Those that have FLOPs and bytes, the longest first."""
        rows = [
            {
                self.one: name,
                "ms": work.ms,
                **work.columns(kernels.ceilings),
                "of_roof_ratio": work.of_roof_ratio(kernels.ceilings),
            }
            for name, work in self.works(kernels)
            if work.flops and work.bytes
        ]
        return sorted(rows, key=lambda row: -float(str(row["ms"])))

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """How many are bound by memory and what these take, and where the longest one is."""
        judged = [row for row in rows if row["bound"]]
        others = len(rows) - len(judged)
        left_out = (
            f" {others} of {len(rows)} {self.many} that multiply matrices are not judged: they calculate in another "
            "type than fp32, which the machine's FLOP/s are of, or theirs is not known."
            if others
            else ""
        )
        if not judged:
            return left_out.strip()
        memory = [row for row in judged if row["bound"] == "memory"]
        whole = sum(row["ms"] for row in judged)
        part = f", {sum(row['ms'] for row in memory) / whole:.0%} of their time" if whole else ""
        first = judged[0]
        ratio = first["of_roof_ratio"]
        attained = "" if ratio is None else f" and attains {ratio:.0%} of its roof"
        return (
            f"{len(memory)} of {len(judged)} {self.many} that multiply matrices{' in fp32' if others else ''} are "
            f"bound by memory{part}; the longest, {first[self.one]}, is bound by {first['bound']}{attained}.{left_out}"
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The roof, and the works below it."""
        assert subject.kernels is not None
        return roofline(rows, self.one, subject.kernels, self.title)
