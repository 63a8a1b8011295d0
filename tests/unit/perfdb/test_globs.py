from __future__ import annotations

import fnmatch
import re

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.globs import MAX_PATTERN_CHARACTERS, compile_glob, is_glob
from inferbench_tasks.perfdb.queries import parse


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_glob_matches_what_a_regular_expression_that_goes_back_matches(glob: str, text: str) -> None:
    """Keeping the first place that fits loses no match, against the plain translation of * and ?."""
    plain = "".join({"*": ".*", "?": "."}.get(c, c) for c in glob)
    assert bool(compile_glob(glob, "run").search(text)) == bool(re.fullmatch(plain, text))


def test_all_but_the_wildcards_stands_for_itself() -> None:
    """Brackets, dots and backslashes are no syntax, unlike a shell's."""
    assert compile_glob("[a].*\\", "run").search("[a].x\\")
    assert not compile_glob("[a]*", "run").search("a1")
    assert fnmatch.fnmatchcase("a1", "[a]*")


def test_a_long_pattern_is_refused() -> None:
    """The message says how long a pattern may be."""
    with pytest.raises(InputError, match=f"run: at most {MAX_PATTERN_CHARACTERS} characters"):
        compile_glob("?" * (MAX_PATTERN_CHARACTERS + 1), "run")


@pytest.mark.parametrize(("text", "expected"), [("a*", True), ("a?", True), ("a", False), ("[a]", False)])
def test_only_wildcards_make_a_pattern(text: str, expected: bool) -> None:
    """A text without * and ? is a value."""
    assert is_glob(text) is expected


@pytest.mark.parametrize("query", ["model=resnet1*", "verdict=invalid", "verdict=disturbed"])
def test_a_pattern_with_a_beginning_is_found_in_an_index(query: str) -> None:
    """MongoDB looks a pattern's beginning up only without the flag ``u``, which BSON has of Python's Unicode rules."""
    ((_, condition),) = parse(query).filter.items()
    (pattern,) = condition["$in"]
    sent = bson.decode(bson.encode({"is": pattern}))["is"]
    assert sent.pattern.startswith("^") and not sent.flags & re.UNICODE
