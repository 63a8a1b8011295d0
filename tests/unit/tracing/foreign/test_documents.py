"""JSON of a file from outside, by what it was written from."""

from __future__ import annotations

import json

import pytest

from inferbench_tasks.tracing.foreign.documents import documents, parsed

#: The ends of 64 bits, and what is beyond them.
NUMBERS = (
    2**63 - 1, 2**64 - 1, 2**64, 10**19, 10**25, -(10**18), -(2**63), -(2**63) - 1, -(10**19) + 1, -(10**19), -(10**25),
)  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("form", ["{:d}", '{{"a":{:d}}}', '{{"a": [1, {:d}], "b": -1.5}}', "[\n{:d}\n]"])
def test_whole_numbers_keep_all_of_their_digits(number: int, form: str) -> None:
    """Whichever they are, wherever they stand."""
    text = form.format(number)
    found = parsed(text.encode())
    assert found == json.loads(text) and str(number) in repr(found)


def test_digits_in_a_text_are_a_text() -> None:
    """A UUID whose last part is of digits alone, and a number in quotes."""
    value = {"id": "0-1234567890123456789", "n": "-9999999999999999999"}
    ((where, found),) = documents(json.dumps(value).encode())
    assert (where, found) == ("", value)
