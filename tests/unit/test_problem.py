"""What pydantic finds wrong, in words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from inferbench_tasks.problem import field_problems


class Part(BaseModel, extra="forbid"):
    """A part of a whole."""

    count: int


class Whole(BaseModel):
    """What is read."""

    parts: list[Part]


def found(value: Any) -> ValidationError:
    """What is wrong with a value."""
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(value)
    return caught.value


def test_each_problem_has_its_field_and_no_value() -> None:
    """One text for each, in their order: values may be secrets."""
    told = field_problems(found({"parts": [{"count": "secret"}, {"count": 1, "more": "secret"}]}))
    assert [text.partition(": ")[0] for text in told] == ["parts.0.count", "parts.1.more"]
    assert "valid integer" in told[0] and "secret" not in "".join(told)


def test_what_is_of_no_field_is_named_as_the_whole() -> None:
    """Or has its message alone; the first parts of a path may be left out."""
    error = found("nothing")
    assert field_problems(error, "corpus")[0].startswith("corpus: ")
    assert not field_problems(error)[0].startswith(":")
    assert field_problems(found({"parts": [{}]}), skipped=2)[0].startswith("count: ")
