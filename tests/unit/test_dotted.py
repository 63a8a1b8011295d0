"""Dotted paths into nested mappings."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.dotted import contains, flatten, last, outermost, parts, set_at, value_at, walk

KEYS = st.text("abc_1", min_size=1, max_size=4)
NESTED = st.dictionaries(
    KEYS,
    st.recursive(
        st.integers() | st.none() | st.lists(st.integers(), max_size=2),
        lambda below: st.dictionaries(KEYS, below, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(NESTED)
def test_what_is_listed_is_read_at_its_path(document: dict[str, Any]) -> None:
    """Every path of the flat form leads to its value in the nested one."""
    assert all(value_at(document, path) is value for path, value in flatten(document).items())


@given(NESTED)
def test_a_flat_document_is_built_up_again(document: dict[str, Any]) -> None:
    """Setting every value and every empty mapping at its path gives the same document."""
    copy: dict[str, Any] = {}
    for path, value in walk(document):
        if not isinstance(value, dict) or not value:
            set_at(copy, path, {} if isinstance(value, dict) else value)
    assert copy == document


@pytest.mark.parametrize("path", ["x", "a.x", "a.b.x", "a.b.c.x", "list.0", "text.x", "none.x"])
def test_a_path_that_leads_nowhere_has_no_value(path: str) -> None:
    """A missing key, and one below a number, a list, a text or null, give None and no error."""
    document = {"a": {"b": {"c": 1}}, "list": [1], "text": "x", "none": None}
    assert value_at(document, path) is None


def test_of_a_group_and_its_parts_the_group_is_left() -> None:
    """Whichever comes first; a name that only begins alike is no part."""
    paths = ["load.rate", "quality.auc.value", "load", "quality.auc", "quality.auc", "loads"]
    assert outermost(paths) == ["load", "quality.auc", "loads"]


def test_a_document_that_is_no_mapping_has_no_values() -> None:
    """What a user wrote may be anything at all."""
    assert value_at(None, "a") is value_at([1], "a.b") is value_at("text", "a") is None


def test_mappings_of_every_kind_are_read() -> None:
    """A read-only view is a mapping like any other."""
    document = MappingProxyType({"a": MappingProxyType({"b": 1})})
    assert value_at(document, "a.b") == 1
    assert flatten(document) == {"a.b": 1}


def test_sections_are_begun_where_there_are_none() -> None:
    """An absent section, null and a plain value make room for a mapping; neighbours stay."""
    document: dict[str, Any] = {"a": None, "b": 1, "c": {"kept": 1}}
    for path in ("a.x", "b.x", "c.x", "d.e.x"):
        set_at(document, path, 2)
    assert document == {"a": {"x": 2}, "b": {"x": 2}, "c": {"kept": 1, "x": 2}, "d": {"e": {"x": 2}}}


def test_a_walk_keeps_the_order_and_shows_groups_before_their_parts() -> None:
    """Order tells which setting was written first; an empty group is one too."""
    document = {"z": {"b": 1, "a": {}}, "y": [2]}
    assert list(walk(document, "at.")) == [
        ("at.z", {"b": 1, "a": {}}), ("at.z.b", 1), ("at.z.a", {}), ("at.y", [2]),
    ]  # fmt: skip
    assert flatten(document, "at.") == {"at.z.b": 1, "at.y": [2]}


def test_a_path_contains_itself_and_what_is_below_it() -> None:
    """A name that only begins alike is another one."""
    assert contains("load", "load")
    assert contains("load", "load.rate_rps")
    assert not contains("load", "loads.rate_rps")
    assert not contains("load.rate_rps", "load")


def test_the_parts_of_a_path() -> None:
    """A path of one key is its own last part."""
    assert parts("a.b.c") == ("a", "b", "c")
    assert (last("a.b.c"), last("a"), parts("a")) == ("c", "a", ("a",))
