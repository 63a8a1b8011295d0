"""XSP 10: kernels of one name together."""

from __future__ import annotations

from collections import defaultdict

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis
from inferbench_tasks.analysis.stack.kernels import Kernel, Kernels
from inferbench_tasks.analysis.stack.work import total


class KernelsByName(KernelAnalysis):
    """A name is an implementation: the same code, on other sizes."""

    number = 10
    name = "kernels_by_name"
    title = "Kernels by name"
    formula = (
        "count, ms, flops and bytes: sums over the kernels of a name (flops, bytes: only where they are known of all "
        "of them); share_ratio: of all kernels' own times; the rates are of the sums"
    )

    def of(self, kernels: Kernels) -> Rows:
        """The longest first."""
        groups: dict[tuple[str, str], list[Kernel]] = defaultdict(list)
        for each in kernels.kernels:
            groups[each.name, each.library].append(each)
        rows: Rows = []
        whole = kernels.added_ms
        for (name, library), group in groups.items():
            work = total(each.work for each in group)
            about = {"kernel": name, "library": library, "count": len(group), "ms": work.ms}
            rows.append({**about, "share_ratio": share(work.ms, whole), **work.columns(kernels.ceilings)})
        return sorted(rows, key=lambda row: -float(row["ms"]))

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """The longest."""
        first = rows[0]
        return (
            f"{first['kernel']} ({first['library']}) takes {first['share_ratio'] or 0:.0%} of the kernels' time, in "
            f"{first['count']} of {len(kernels.kernels)} kernels; there are {len(rows)} by name."
        )

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The longest."""
        return bars(rows, ("kernel", "library"), "Time of kernels by name", {"ms": "own time"})
