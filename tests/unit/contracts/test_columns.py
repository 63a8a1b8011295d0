"""Arrow columns are what ``pa.array`` makes of the same."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from inferbench_tasks.contracts.columns import numbers, texts


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "f4", "f8"])
def test_numbers_are_what_arrow_makes_of_them(dtype: str) -> None:
    """Also of every second one, which do not lie side by side, and of none."""
    values = np.arange(40).astype(dtype)
    for some in (values, values[::2], values[:0]):
        column = numbers(some)
        assert column.equals(pa.array(some)) and column.null_count == 0
        column.validate(full=True)


def test_numbers_that_are_not_there_are_null() -> None:
    """Whatever stands in their place; a NaN that is there is a number."""
    values = np.array([1.0, np.nan, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    there = np.array([True, False, True, True, False, True, True, True, True])
    column = numbers(values, there)
    column.validate(full=True)
    assert column.equals(pa.array(values, mask=~there)) or np.isnan(column[2].as_py())
    assert column.is_valid().to_pylist() == there.tolist() and column.null_count == 2
    assert numbers(values, np.zeros(9, np.bool_)).null_count == 9
    assert numbers(values, np.ones(9, np.bool_)).null_count == 0


@pytest.mark.parametrize("values", [np.ones(3, np.bool_), np.array(["a"]), np.ones((2, 2)), np.float64(1)])
def test_what_is_no_column_of_numbers_is_refused(values: np.ndarray) -> None:
    """Rather than read as what it is not: a truth value takes a bit, and no byte."""
    with pytest.raises(ValueError, match="is no column of numbers"):
        numbers(np.asarray(values))


def test_texts_are_what_arrow_makes_of_them() -> None:
    """Also empty ones, and letters of several bytes."""
    for some in (["warmup", "", "\N{GREEK SMALL LETTER MU}s", "measure"], [""], []):
        column = texts(some)
        column.validate(full=True)
        assert column.equals(pa.array(some, pa.string()))


def test_no_pandas_is_imported() -> None:
    """What it is for."""
    code = (
        "import sys, numpy as np\n"
        "from inferbench_tasks.contracts.columns import numbers, texts\n"
        "numbers(np.ones(3), np.array([True, False, True])), texts(['a'])\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
