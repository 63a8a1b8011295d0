"""Values on their way into BSON and back."""

from __future__ import annotations

from typing import Any

import bson
import numpy as np
import pytest
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.perfdb.values import plain_key, stored_key, to_plain, to_stored

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).map(lambda value: to_plain(to_stored(value)))


@given(st.text())
def test_every_key_comes_back(key: str) -> None:
    """A stored key has no dot, NUL or leading $, and its plain form is the key that was given."""
    stored = stored_key(key)
    assert not stored.startswith("$")
    assert not {".", "\0"} & set(stored)
    assert plain_key(stored) == key


@given(JSON)
def test_every_document_survives_bson(value: Any) -> None:
    """What was stored is read back equal, whatever its keys."""
    stored = to_stored({"value": value})
    assert to_plain(bson.decode(bson.encode(stored))) == {"value": value}


def test_hostile_keys_are_no_operators() -> None:
    """A key that looks like an operator or a path is stored as text."""
    assert to_stored({"$where": {"a.b": 1, "50%": 2}}) == {"%24where": {"a%2Eb": 1, "50%25": 2}}


def test_numbers_of_numpy_and_nan() -> None:
    """numpy's numbers become plain ones; what is not finite was not measured."""
    given_ = {"a": np.float32(1.5), "b": np.int64(3), "c": np.array([1.0, np.nan]), "d": float("inf")}
    assert to_stored(given_) == {"a": 1.5, "b": 3, "c": [1.0, None], "d": None}


@pytest.mark.parametrize("value", [2**32, 2**63 - 1, -(2**63)])
def test_a_large_integer_that_was_read_can_be_stored_again(value: int) -> None:
    """BSON gives it as a type of its own; a failed run's job with a large seed is copied into its result."""
    assert to_stored({"seed": Int64(value)}) == {"seed": value}


@pytest.mark.parametrize(("value", "message"), [(2**63, "64 bits"), (object(), "object can't be stored")])
def test_what_cannot_be_stored_is_refused(value: object, message: str) -> None:
    """An integer beyond 64 bits, or an unknown type, is an error and not a changed value."""
    with pytest.raises(PerfDBError, match=message):
        to_stored({"value": value})


def test_too_deep_is_refused() -> None:
    """Nesting beyond MongoDB's limit is a clear error."""
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(PerfDBError, match="nested deeper"):
        to_stored(deep)
