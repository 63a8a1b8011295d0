"""What the analyses of kernels (XSP 8 to 15) need, and how their tables begin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from inferbench_tasks.analysis.stack.base import Analysis, Rows, Subject
from inferbench_tasks.analysis.stack.kernels import Kernels
from inferbench_tasks.analysis.stack.work import Work, total
from inferbench_tasks.servers.sources.sampled_objects import SAMPLED

#: What is said where no kernels are told, but where the layers were.
NO_KERNELS = (
    "They are no kernels but shared objects that layers were sampled in, by their share of the samples."
)


class KernelAnalysis(Analysis):
    """Of a trace of the library level. ``needs_work``: of FLOPs and bytes too; ``needs_ceilings``: of the machine's."""

    needs_work: ClassVar[bool] = False
    needs_ceilings: ClassVar[bool] = False

    def missing(self, subject: Subject) -> str | None:
        """Which source is missing."""
        kernels = subject.kernels
        if kernels is None:
            return (
                "a trace of the library level: `trace: {deepest: library}` on a backend whose source tells of it, see "
                "`inferbench trace sources`"
            )
        if not kernels.kernels:
            return f"a kernel in any layer: none was met. {kernels.lacking}".rstrip(". ")
        if self.needs_work and not any(each.flops and each.bytes for each in kernels.kernels):
            return (
                "FLOPs and bytes of kernels, which oneDNN tells of its primitives: none of these ran in a layer, and "
                "of a GPU's kernels nobody tells them"
            )
        if self.needs_ceilings and kernels.ceilings is None:
            return f"the ceilings of the machine that was traced: {kernels.no_ceilings}"
        if self.needs_ceilings and not any(
            each.flops and each.work.bound(kernels.ceilings) for each in kernels.kernels
        ):
            types = sorted({each.data_type or "not known" for each in kernels.kernels if each.flops})
            return (
                "kernels that multiply matrices in fp32, which the machine's FLOP/s are of: the types of those that "
                f"ran: {', '.join(types)}"
            )
        return None

    def rows(self, subject: Subject) -> Rows:
        """The table."""
        return self.of(_there(subject))

    @abstractmethod
    def of(self, kernels: Kernels) -> Rows:
        """The table, where there is all that it takes."""

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """What it shows."""
        kernels = _there(subject)
        words = [self.words(kernels, rows)]
        if any(each.type == SAMPLED for each in kernels.kernels):
            words.append(NO_KERNELS)
        if kernels.side_by_side:
            words.append(
                f"Kernels ran side by side on several streams: each has all of its time, {kernels.added_ms:.4g} ms "
                f"added up, and any of them ran for {kernels.ms:.4g} ms."
            )
        return " ".join(filter(None, [*words, kernels.lacking]))

    @abstractmethod
    def words(self, kernels: Kernels, rows: Rows) -> str:
        """What the table shows, where there is all that it takes."""


def _there(subject: Subject) -> Kernels:
    assert subject.kernels is not None, "asked only where nothing is missing"
    return subject.kernels


def counted(works: Sequence[Work]) -> tuple[Work, float]:
    """Those together whose FLOPs and bytes are both known, and their share of the time of all; of none nothing is
    known."""
    known = [each for each in works if each.flops is not None and each.bytes is not None]
    whole = sum(each.ms for each in works)
    part = total(known) if known else Work(0.0, None, None)
    return part, part.ms / whole if whole else 0.0
