"""The limits of a document that came as parsed JSON: those of YAML, whatever else is wrong with it.

Looked at step by step and never by recursion, for a body of a few kilobytes can be nested deeper than Python's stack.
"""

from __future__ import annotations

import math
from typing import Any

from inferbench_tasks.problem import FieldPath, Problem, dotted
from inferbench_tasks.submission.document import MAX_BYTES, MAX_DEPTH, MAX_KEYS, MAX_VALUES, bad_character

#: Far more than any field holds; Python refuses to print numbers of more than 4,300 digits.
MAX_DIGITS = 300
_MAX_BITS = int(MAX_DIGITS / math.log10(2))
#: More problems than this are not looked for.
_MAX_PROBLEMS = 20


def data_problems(data: Any, source: str) -> list[Problem]:
    """What is beyond the limits in parsed JSON: depth, values, characters, digits, numbers that are none."""
    problems: list[Problem] = []
    values = size_bytes = 0
    # Each value with where it stands; the last first.
    open_values: list[tuple[FieldPath, Any]] = [((), data)]
    while open_values and len(problems) < _MAX_PROBLEMS:
        path, value = open_values.pop()
        values += 1
        if isinstance(value, str):
            size_bytes += len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, dict):
            size_bytes += sum(len(str(key).encode("utf-8", "surrogatepass")) for key in value)
        if values > MAX_VALUES:
            return [Problem(source, None, "", f"more than {MAX_VALUES:,} values")]
        if size_bytes > MAX_BYTES:
            return [
                Problem(source, None, "", f"larger than {MAX_BYTES:,} bytes; a submission is a few lines")
            ]
        if len(path) >= MAX_DEPTH:
            problems.append(Problem(source, None, "", f"nested deeper than {MAX_DEPTH} levels"))
        elif isinstance(value, dict):
            if values + len(value) > MAX_VALUES:
                return [Problem(source, None, "", f"more than {MAX_VALUES:,} values")]
            if len(value) > MAX_KEYS:
                return [Problem(source, None, dotted(path), f"a mapping of more than {MAX_KEYS:,} keys")]
            if message := next(filter(None, map(_key_problem, value)), None):
                problems.append(Problem(source, None, dotted(path), message))
            open_values += [((*path, str(key)), item) for key, item in value.items()]
        elif isinstance(value, list):
            # Of a list that is too long by itself no path is made.
            if values + len(value) > MAX_VALUES:
                return [Problem(source, None, "", f"more than {MAX_VALUES:,} values")]
            open_values += [((*path, index), item) for index, item in enumerate(value)]
        elif message := _scalar_problem(value):
            problems.append(Problem(source, None, dotted(path), message))
    return problems


def _key_problem(key: Any) -> str | None:
    if not isinstance(key, str):
        return "a key is a text"
    problem = bad_character(key)
    return f"in a key: {problem}" if problem else None


def _scalar_problem(value: Any) -> str | None:
    if isinstance(value, str):
        return bad_character(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"a whole number of more than {MAX_DIGITS} digits"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is no number"
    return None
