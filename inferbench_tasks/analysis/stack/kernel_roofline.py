"""XSP 9: each kernel against what its operational intensity allows."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Rows, Subject
from inferbench_tasks.analysis.stack.figures import roofline
from inferbench_tasks.analysis.stack.kernel_base import KernelAnalysis
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.roof import ROOF, roof_rows, roof_words


class KernelRoofline(KernelAnalysis):
    """Kernels without FLOPs have no place on it."""

    number = 9
    name = "kernel_roofline"
    title = "Roofline of kernels"
    formula = f"of kernels with FLOPs and bytes: {ROOF}"
    needs_work = True
    needs_ceilings = True

    def of(self, kernels: Kernels) -> Rows:
        """The longest first."""
        return roof_rows("kernel", [(each.name, each.work) for each in kernels.kernels], kernels)

    def words(self, kernels: Kernels) -> str:
        """How many are bound by memory, and where the longest one is."""
        return roof_words("kernels", "kernel", self.of(kernels))

    def figure(self, subject: Subject) -> Chart:
        """The roof, and the kernels below it."""
        assert subject.kernels is not None
        return roofline(self.rows(subject), "kernel", subject.kernels, "Roofline of kernels")
