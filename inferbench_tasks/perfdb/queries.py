"""One query language for results, in the CLI, the API and Python:

    model=resnet* backend=triton,onnxruntime batch>=4 since=7d user=x verdict=valid

All terms must hold. ``=`` and ``!=`` take a value, a list ``a,b`` or a pattern with ``*`` and ``?``;
a pattern has at most 200 characters and is matched without going back (``globs``);
numbers take ``< <= > >=`` too; ``none`` stands for "not measured". ``since`` and ``until`` take an age
(``90s 30m 12h 7d 2w``) or a date (ISO 8601, UTC); ``until`` a date alone takes in its whole day.
Quotes keep spaces: ``"device_name=Tesla T4"``.
The result is a MongoDB filter made of known paths and literal values: nothing in a query is executed.
"""

from __future__ import annotations

import math
import operator
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from inferbench_tasks.contracts.verdict import KINDS
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.fields import Field, field
from inferbench_tasks.perfdb.globs import compile_glob, is_glob

MAX_QUERY_CHARACTERS, MAX_TERMS, MAX_VALUES = 4000, 50, 100
_TERM = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)\s*(!=|>=|<=|=|>|<)(.*)", re.DOTALL)
_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
VERDICTS = (*KINDS, "running")


@dataclass(frozen=True)
class Query:
    """``filter`` selects results; ``run_filter`` runs, None if no run without a result can match."""

    filter: dict[str, Any]
    run_filter: dict[str, Any] | None


def parse(
    query: str | Iterable[str] = "", now: datetime | None = None, lookup: Callable[[str], Field] = field
) -> Query:
    """Understand a query, given as one text or as its terms; raises InputError, naming the term.

    ``lookup`` finds a field by its name; by default those of results.
    """
    terms = _split(query) if isinstance(query, str) else list(query)
    if len(terms) > MAX_TERMS or sum(map(len, terms)) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"The query is too long: at most {MAX_TERMS} terms, {MAX_QUERY_CHARACTERS} characters."
        )
    results: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] | None = []
    for term in terms:
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise InputError(
                f"The term {term[:60]!r} is not understood: it has the form field=value "
                "(or != < <= > >=), for instance model=resnet* batch>=4 since=7d verdict=valid"
            )
        name, operator, value = match[1], match[2], match[3].strip()
        if name in ("since", "until"):
            if operator != "=":
                raise InputError(f"{name}{operator}{value[:40]}: {name} takes = only, for instance {name}=7d")
            moment = _moment(name, value, now or utc_now())
            column = lookup("created")
            condition = {"$gte": moment} if name == "since" else _until(value, moment)
        else:
            column = lookup(name)
            condition = _condition(column, operator, value)
        results.append({column.path: condition})
        if runs is not None:
            runs = None if column.run_path is None else [*runs, _for_run(column, condition)]
    return Query(_all(results), None if runs is None else _all(runs))


def matches(filter: dict[str, Any], document: dict[str, Any]) -> bool:
    """Whether a plain document fulfils a filter that ``parse`` made: for what lies in no database."""
    if "$and" in filter:
        return all(matches(part, document) for part in filter["$and"])
    return all(
        holds(sign, bound, Field("", path, "any", "").value(document))
        for path, condition in filter.items()
        for sign, bound in condition.items()
    )


def holds(sign: str, bound: Any, value: Any) -> bool:
    """Whether a value fulfils one of MongoDB's operators, as ``parse`` uses them."""
    if sign in _COMPARE:
        same_kind = isinstance(value, (int, float)) == isinstance(bound, (int, float)) and value is not None
        return same_kind and bool(_COMPARE[sign](value, bound))
    candidates = bound if sign in ("$in", "$nin") else [bound]
    values = value if isinstance(value, list) else [value]
    matching = any(_equal(candidate, item) for candidate in candidates for item in values)
    return not matching if sign == "$nin" else matching


def _equal(bound: Any, value: Any) -> bool:
    if isinstance(bound, re.Pattern):
        return isinstance(value, str) and bound.search(value) is not None
    return bool(bound == value)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip


def parse_sort(text: str) -> list[tuple[str, int]]:
    """``p99`` or ``-throughput`` (descending), several by comma -> MongoDB's sort."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    return [(field(name.lstrip("-+")).path, -1 if name.startswith("-") else 1) for name in names]


def _split(query: str) -> list[str]:
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InputError(f"The query is too long: at most {MAX_QUERY_CHARACTERS} characters.")
    try:
        return shlex.split(query)
    except ValueError as error:
        raise InputError(
            f"The query {query[:60]!r} is not understood: {error} (quotes must be closed)"
        ) from error


def _all(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    if len(conditions) <= 1:
        return conditions[0] if conditions else {}
    return {"$and": conditions}


def _for_run(column: Field, condition: dict[str, Any]) -> dict[str, Any]:
    assert column.run_path is not None
    return {column.run_path: condition}


def _condition(column: Field, operator: str, text: str) -> dict[str, Any]:
    if not text:
        raise InputError(f"{column.name}{operator}: a value is missing (none stands for 'not measured')")
    if operator in _ORDER:
        return {_ORDER[operator]: _ordered(column, operator, text)}
    values = [part.strip() for part in text.split(",")] if column.kind != "time" else [text]
    if len(values) > MAX_VALUES:
        raise InputError(f"{column.name}: at most {MAX_VALUES} values, these are {len(values)}")
    bounds = [_value(column, value) for value in values]
    if operator == "!=":
        return {"$nin": bounds}
    return {"$in": bounds} if len(bounds) > 1 or isinstance(bounds[0], re.Pattern) else {"$eq": bounds[0]}


def _ordered(column: Field, operator: str, text: str) -> Any:
    if column.kind == "time":
        return _moment(column.name, text, utc_now())
    if column.kind in ("number", "any"):
        return _number(column, text)
    raise InputError(f"{column.name}{operator}{text[:40]}: {column.name} is text and takes = and != only")


def _value(column: Field, text: str) -> Any:
    if text == "none":
        return None
    if column.kind == "number":
        return _number(column, text)
    if column.kind == "time":
        return _moment(column.name, text, utc_now())
    if column.kind == "verdict":
        return _verdict(text)
    if column.kind == "any":
        try:
            return (
                {"true": True, "false": False}[text] if text in ("true", "false") else _number(column, text)
            )
        except InputError:
            pass  # not a number: text
    if is_glob(text):
        return compile_glob(text, column.name)
    return text


def _verdict(text: str) -> Any:
    if text == "valid":
        return text
    if text == "running":
        return None
    if text not in VERDICTS:
        raise InputError(f"verdict={text[:40]}: allowed are {', '.join(VERDICTS)}")
    return re.compile(f"^{text}: ", re.ASCII)  # as in ``globs``: so that an index finds the beginning


def _number(column: Field, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{column.name}: {text[:40]!r} is no number ({column.help or 'a number is needed'})")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _until(text: str, moment: datetime) -> dict[str, datetime]:
    """A date alone is meant with its whole day."""
    try:
        date.fromisoformat(text)
        return {"$lt": moment + timedelta(days=1)}
    except (ValueError, OverflowError):  # an age, a time of day; the last day of the calendar
        return {"$lte": moment}


def _moment(name: str, text: str, now: datetime) -> datetime:
    if age := _AGE.fullmatch(text):
        try:
            return now - timedelta(seconds=float(age[1]) * _SECONDS[age[2]])
        except OverflowError as error:
            raise InputError(f"{name}={text[:40]}: that is before the calendar starts") from error
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{name}={text[:40]}: an age (90s, 30m, 12h, 7d, 2w) or a date (2026-01-31, "
            "2026-01-31T12:00, in UTC) is needed"
        ) from error
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
