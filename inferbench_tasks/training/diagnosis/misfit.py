"""A cell that does not fit its row: far from what the same work takes with the other data, where others are near."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.contradiction import log_of, slip
from inferbench_tasks.training.imported.rows import PHASES, SAME_WORK, Import, TableRow

#: So many robust standard deviations from the median are no chance, and never less than this factor.
DEVIATIONS, LEAST_FACTOR = 6.0, 3.0
#: A median of fewer pairs says nothing.
LEAST_PAIRS = 5
#: Phases in which both data sets give the device the same work; loading is what differs.
_ALIKE = ("processing", "forward", "backward")


def find(content: Import) -> Iterator[Cause]:
    """By pairs of rows that differ in their data alone: the logarithms of their ratios, against median and MAD."""
    pairs = [
        (row, other, phase, math.log(time_s / other_s))
        for row, other in _pairs(content.rows)
        for phase in _ALIKE
        if (time_s := row.time_s(phase)) and (other_s := other.time_s(phase))
    ]
    if len(pairs) < LEAST_PAIRS:
        return
    middle = statistics.median(ratio for *_, ratio in pairs)
    # 1.4826: the MAD of normal values is that part of their standard deviation.
    spread = 1.4826 * statistics.median(abs(ratio - middle) for *_, ratio in pairs)
    bound = max(DEVIATIONS * spread, math.log(LEAST_FACTOR))
    usual = [math.exp(ratio) for *_, ratio in pairs if abs(ratio - middle) <= bound]
    for row, other, phase, ratio in pairs:
        if abs(ratio - middle) <= bound:
            continue
        # Of the two cells the one with fewer digits; a slip of the pen is more likely there.
        swapped = len(other.cells[phase]) < len(row.cells[phase])
        odd, beside = (other, row) if swapped else (row, other)
        factor, usual_of = math.exp(-ratio if swapped else ratio), -middle if swapped else middle
        evidence = [
            f"{odd.source}: {odd.label}: {phase} {odd.cells[phase]} s, {factor:.3g} times the {beside.cells[phase]} s "
            f"of {beside.source} with {beside.data}",
            f"the other {len(usual)} such pairs differ by factors of {min(usual):.2f} to {max(usual):.2f}",
            *_digits(odd, phase, content.rows),
        ]
        shifted = _shift(odd, beside, phase, usual_of, bound)
        remedy = f"Look it up in the log; {shifted} would fit." if shifted else "Look it up in the log."
        if (log := log_of(odd, content.logs)) and slip(odd, log) == phase:
            evidence.append(f"{log.source}, with the other times of the row, has {log.time_s(phase):.4f} s")
            remedy = f"Take the log's {log.time_s(phase):.4f} s."
        yield Cause(
            rule="misfit",
            kind="wrong",
            sentence=f"{odd.cells[phase]} s of {phase} does not fit its row ({odd.label}).",
            evidence=evidence,
            remedy=remedy,
        )


def _pairs(rows: list[TableRow]) -> Iterator[tuple[TableRow, TableRow]]:
    same = (*SAME_WORK, "cluster", "benchmark", "device", "devices")
    for index, row in enumerate(rows):
        for other in rows[index + 1 :]:
            if row.data != other.data and all(getattr(row, name) == getattr(other, name) for name in same):
                yield other, row


def _digits(odd: TableRow, phase: str, rows: list[TableRow]) -> list[str]:
    """That the cell has other digits behind the point than every other one of the table."""

    def behind(cell: str) -> int:
        return len(cell.partition(".")[2])

    cells = [row.cells[name] for row in rows for name in PHASES if row.time_s(name) is not None]
    others = {behind(cell) for cell in cells if cell != odd.cells[phase]}
    mine = behind(odd.cells[phase])
    if mine in others or len(others) != 1:
        return []
    return [f"it has {mine} digits behind the point, every other cell {others.pop()}: a slip of the pen"]


def _shift(odd: TableRow, beside: TableRow, phase: str, middle: float, bound: float) -> str | None:
    time, reference = odd.time_s(phase), beside.time_s(phase)
    assert time and reference
    for shifted in (time / 10, time * 10):
        if abs(math.log(shifted / reference) - middle) <= bound:
            return f"{shifted:.4f}"
    return None
