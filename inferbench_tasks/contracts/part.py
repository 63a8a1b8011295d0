"""Names of the parts of a large submission, DAGs of their own: ``big..jobs-00100-00199`` is a part of ``big``."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What tells a part's name: no submission's holds two dots in a row.
MARK = "..jobs-"
_PART = re.compile(re.escape(MARK) + r"(\d{5})-(\d{5})$")


@dataclass(frozen=True, slots=True)
class PartName:
    """A part of the submission whose DAG is ``whole``: its jobs from ``first`` to ``last``, both included."""

    whole: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.whole}{MARK}{self.first:05d}-{self.last:05d}"

    @classmethod
    def of(cls, dag_id: str) -> PartName | None:
        """None where the DAG is no part of another."""
        if (match := _PART.search(dag_id)) is None:
            return None
        return cls(dag_id[: match.start()], int(match[1]), int(match[2]))

    def __contains__(self, job_index: int) -> bool:
        return self.first <= job_index <= self.last


def whole_of(dag_id: str) -> str:
    """The DAG of the submission that this one is a part of; itself, if it is none."""
    part = PartName.of(dag_id)
    return dag_id if part is None else part.whole
