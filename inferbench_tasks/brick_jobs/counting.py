"""How the work of bricks is counted (``work``), and which of it an earlier version counted otherwise."""

from __future__ import annotations

from collections.abc import Iterable

#: How work is counted. 1 (and documents without): a transposed convolution by its outputs instead of its inputs, and a
#: product by its first operand only where that is no constant.
COUNT = 2
#: Operators whose outputs are sums of products over an axis of the first operand: the last one, or if the operator
#: turns it around (``transA``) the one before.
PRODUCTS = (
    "MatMul", "Gemm", "FusedMatMul", "FusedGemm", "QLinearMatMul", "QGemm", "MatMulInteger", "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
)  # fmt: skip
_COUNTED_OTHERWISE = frozenset({"ConvTranspose", *PRODUCTS})


def outdated(operators: Iterable[str], count: int | None) -> bool:
    """Whether what was counted so of these operators may be wrong; ``count``: None of before it was kept."""
    names = {operator.rpartition(".")[2] for operator in operators}
    return (count or 1) < COUNT and not _COUNTED_OTHERWISE.isdisjoint(names)
