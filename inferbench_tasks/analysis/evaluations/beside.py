"""Which results are parts of one evaluation (``evaluate.parts``): those of one invocation that were asked the same but
for their part. Runs that failed are among them, so that nothing is taken for the whole without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferbench_tasks.analysis.evaluations.listed import HERE, PART
from inferbench_tasks.analysis.evaluations.together import but_for_part
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.submission.part import AUTO, Part

#: The file of a result's answers, which no other result has.
ANSWERS = f"{HERE}.answers.id"
#: What tells of a result which whole it is of, and what became of it.
KEYS = (
    "run_id", "attempt", "created_at", "invocation_id", "verdict", "provenance.job", f"{HERE}.samples", ANSWERS,
)  # fmt: skip
#: Of one evaluation the results of its parts, by their numbers.
Parts = dict[int, dict[str, Any]]


def part_in(document: Mapping[str, Any]) -> Part | None:
    """Which part a stored result is; None of one that asked all."""
    text = value_at(document, PART)
    return Part.read(text) if isinstance(text, str) else None


def whole_key(document: Mapping[str, Any]) -> str | None:
    """The same of all parts of one evaluation, and of nothing else; None of a run that asked all."""
    part, invocation = part_in(document), document.get("invocation_id")
    if part is None or invocation is None:
        return None
    asked = but_for_part(value_at(document, "provenance.job") or {})
    return json.dumps([invocation, part.of, asked], sort_keys=True, default=str)


def parts_beside(db: PerfDB, document: Mapping[str, Any]) -> Parts:
    """All parts of the evaluation that this result is a part of, itself among them: of each run its last attempt."""
    part, key = part_in(document), whole_key(document)
    if part is None or key is None:
        return {}
    where = {"invocation_id": document["invocation_id"], PART: {"$regex": f"/{part.of}$"}}
    found = (each for each in db.find_raw(where, NEWEST_FIRST, fields=KEYS) if whole_key(each) == key)
    return _last_of_each(found)


def whole_beside(db: PerfDB, document: Mapping[str, Any]) -> Parts:
    """The same where they stand as one: all are there, or their submission asks for all of them (``evaluate.parts``),
    so that those without a result are missing. {} where the part stands by itself: the others were asked elsewhere, or
    by nobody.
    """
    parts = parts_beside(db, document)
    if not parts:
        return {}
    of = of_how_many(parts)
    return parts if len(parts) == of or _planned(db, document["invocation_id"], of) else {}


def _planned(db: PerfDB, invocation_id: str, of: int) -> bool:
    try:
        invocation = db.get_invocation(invocation_id)
    except InputError:  # its results alone were brought here
        return False
    # The submission is kept with the report: until then nobody knows which parts are still to come.
    return asks_for(invocation.document, of) if invocation.document else invocation.status == "running"


def asks_for(submission: Mapping[str, Any], of: int) -> bool:
    """Whether a submission divides an evaluation into so many parts itself, also by its sweep."""
    return any(each in (of, AUTO) for each in _numbers_of_parts(submission, ""))


def _numbers_of_parts(value: Any, path: str) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _numbers_of_parts(each, f"{path}.{name}")
    elif isinstance(value, list):  # the values of a sweep
        for each in value:
            yield from _numbers_of_parts(each, path)
    elif path.endswith(".evaluate.parts"):
        yield value


def of_how_many(parts: Parts) -> int:
    """Of how many they are."""
    return next(part.of for each in parts.values() if (part := part_in(each)) is not None)


def missing_in(parts: Parts) -> list[str]:
    """Each part without answers, with what became of it; [] where all of them answered."""
    of = of_how_many(parts)
    return [
        f"{number}/{of} ({parts[number]['verdict'] if number in parts else 'no result yet'})"
        for number in range(1, of + 1)
        if number not in parts or value_at(parts[number], f"{HERE}.samples") is None
    ]


def _last_of_each(documents: Iterable[dict[str, Any]]) -> Parts:
    last: Parts = {}
    for each in documents:
        part = part_in(each)
        assert part is not None
        before = last.get(part.number)
        if before is None or each["attempt"] > before["attempt"]:
            last[part.number] = each
    return dict(sorted(last.items()))
