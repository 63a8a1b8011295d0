"""XSP 8: the kernels in the order in which they run."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject, share
from inferbench_tasks.analysis.stack.figures import bars
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis
from inferbench_tasks.analysis.stack.kernels import Kernels


class KernelTable(KernelAnalysis):
    """Everything that is known of each kernel."""

    number = 8
    name = "kernels"
    title = "Kernels in their order"
    formula = (
        "ms: the kernel's own time, mean over the middle half of each round's runs with this level's instruments, then "
        "over the rounds; share_ratio: of such a run; flops: 2 for a multiply-add, padding too, nothing else; bytes: "
        "each operand once, neither of a GPU's kernels, which may run side by side and have all of their time each; "
        "bound: memory where flop_per_byte is below the machine's FLOP/s by bytes/s, of fp32 (data_type f32) on one "
        "thread alone"
    )

    def of(self, kernels: Kernels) -> Rows:
        """A line for each kernel."""
        return [
            {
                "place": each.order,
                "kernel": each.name,
                "library": each.library,
                "layer": kernels.layers[each.layer].name,
                "ms": each.ms,
                "share_ratio": share(each.ms, kernels.framework_ms),
                **each.work.columns(kernels.ceilings),
            }
            for each in kernels.kernels
        ]

    def words(self, kernels: Kernels, rows: Rows) -> str:
        """How few of them take how much."""
        times = sorted((each.ms for each in kernels.kernels), reverse=True)
        few = min(3, len(times))
        libraries = ", ".join(dict.fromkeys(each.library for each in kernels.kernels))
        taken, run = sum(times[:few]), f"a run's {kernels.framework_ms:.4g} ms"
        who, whole = f"{few} of {len(times)} kernels ({libraries})", kernels.ms / kernels.framework_ms
        if kernels.side_by_side:  # theirs may be more than the run
            part = taken / kernels.added_ms
            return f"{who} are {part:.0%} of all kernels' own times; these take {whole:.1%} of {run}."
        return f"{who} take {taken / kernels.framework_ms:.0%} of {run}; all kernels {whole:.1%} of it."

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """The longest."""
        return bars(rows, ("kernel", "layer"), "Time of kernels", {"ms": "own time"})
