"""XSP 9: each kernel against what its operational intensity allows."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.roof import ROOF, Roofline
from inferbench_tasks.analysis.stack.work import Work


class KernelRoofline(Roofline):
    """Kernels without FLOPs have no place on it."""

    number = 9
    name = "kernel_roofline"
    title = "Roofline of kernels"
    formula = f"of kernels with FLOPs and bytes: {ROOF}"
    one, many = "kernel", "kernels"

    def works(self, kernels: Kernels) -> Sequence[tuple[str, Work]]:
        """Each kernel's own."""
        return [(each.name, each.work) for each in kernels.kernels]
