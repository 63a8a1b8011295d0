"""Queries of a user that would keep the api-server from everyone else's."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.queries import MAX_QUERY_CHARACTERS, matches, parse

#: A run's id is about as long, and far longer ones are in the store as texts.
TEXTS = (
    "a" * 100,
    "a" * 10_000,
    "ab" * 5_000,
    "submitted.resnet-0123456789ab--2026-01-01T00:00:00",
    "!" * 5_000 + "a",
)
PATTERNS = (
    "*?*?*?*?*?*?*?*!",
    "*a*a*a*a*a*a*a*!b",
    "*" + "?" * 190 + "*!",
    "?*?*?*?*?*?*?*?!",
    "*" + "a" * 150 + "*" + "a" * 40 + "b",
    "*ab*ab*ab*ab*ab*ab*ab*!b",
    "*(a+)+$*",
    "*(?:a|a)*(?:a|a)*!",
    "*\\a*\\\\*[a-z]*^$!",
)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_hostile_pattern_is_answered_like_any_other(pattern: str) -> None:
    """It matches nothing here, and says so without trying every way to divide a text."""
    filter = parse([f"run={pattern}"]).filter
    assert not any(matches(filter, {"run_id": text}) for text in TEXTS)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("run=" + "*" * 9, "at most 8"),
        ("run=" + "?" * 201, "at most 200 characters"),
        ("run=" + "*?" * 1000 + "!", "at most"),
        ("run=" + "a" * MAX_QUERY_CHARACTERS, "too long"),
        ("run=" + ",".join(["*a*!"] * 101), "at most 100 values"),
    ],
)
def test_a_query_beyond_the_limits_is_refused(term: str, message: str) -> None:
    """The message names the limit."""
    with pytest.raises(InputError, match=message):
        parse([term])


@pytest.mark.timeout(5)
def test_a_whole_query_of_hostile_patterns_is_answered() -> None:
    """As many patterns as a query may have, against a result that fits none of them."""
    values = ",".join(f"*?*?*?*?*?*?*{chr(98 + i % 20)}{i}" for i in range(100))
    filter = parse([f"run={values}"]).filter
    assert not matches(filter, {"run_id": "a" * 1000})
