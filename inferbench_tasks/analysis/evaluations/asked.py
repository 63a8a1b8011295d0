"""A query on evaluations by what its terms are asked of where the parts of one evaluation are one row: of the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.evaluations.beside import Parts
from inferbench_tasks.analysis.evaluations.listed import HERE, PART
from inferbench_tasks.contracts.verdict import KINDS, split
from inferbench_tasks.dotted import contains
from inferbench_tasks.perfdb.queries import matches

_OF_VERDICT = ("verdict", "judgement")
#: What is made anew of all parts: measures and samples. Of speed a whole has none.
_OF_ROW = ("summary", HERE)


@dataclass(frozen=True)
class Asked:
    """``filter``: all of it, as ``queries.parse`` makes it. Of its terms ``of_verdict`` are asked of the worst part's
    verdict, which is the whole's; ``of_row`` of the whole's figures; ``of_parts``, the others, of any one part.
    """

    filter: dict[str, Any]
    of_verdict: Sequence[Mapping[str, Any]]
    of_row: Sequence[Mapping[str, Any]]
    of_parts: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, filter: dict[str, Any]) -> Asked:
        """The terms apart."""
        terms: list[dict[str, Any]] = filter.get("$and", [filter] if filter else [])
        verdicts = [term for term in terms if _below(term, _OF_VERDICT)]
        rows = [term for term in terms if _below(term, _OF_ROW)]
        return cls(
            filter, verdicts, rows, [term for term in terms if term not in verdicts and term not in rows]
        )

    @property
    def tells_wholes_apart(self) -> bool:
        """Whether a whole may match that has no part that does, or the other way about."""
        return bool(self.of_verdict or self.of_row)

    @property
    def candidates(self) -> dict[str, Any]:
        """Of PerfDB: what matches, and each part that a whole which matches may be of."""
        if not self.tells_wholes_apart:
            return self.filter
        return {"$or": [self.filter, {"$and": [*self.of_parts, {PART: {"$type": "string"}}]}]}

    def verdict_holds(self, parts: Parts) -> bool:
        """Of the worst part's verdict."""
        text = max(
            (str(each["verdict"]) for each in parts.values()), key=lambda each: KINDS.index(split(each)[0])
        )
        document = {"verdict": text, "judgement": {"kind": split(text)[0]}}
        return matches({"$and": self.of_verdict}, document)

    def row_holds(self, document: dict[str, Any]) -> bool:
        """Of what was made of all parts."""
        return matches({"$and": self.of_row}, document)


def _below(term: Mapping[str, Any], groups: Sequence[str]) -> bool:
    return any(contains(group, path) for path in term for group in groups)
