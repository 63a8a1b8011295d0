"""Tables that a spreadsheet may open: what it would run as a formula is told as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

#: A text that starts with one of these would be run.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(value: Any) -> Any:
    """A text that would be run behind a quote, all else as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def harmless_table(table: pandas.DataFrame) -> pandas.DataFrame:
    """The same of every cell, and of the names of columns. Whole numbers beside missing ones stay what they are."""
    import pandas

    def column(values: pandas.Series) -> pandas.Series:
        if pandas.api.types.is_numeric_dtype(values) or pandas.api.types.is_datetime64_any_dtype(values):
            return values
        # By hand: ``map`` would make floats of whole numbers beside None.
        return pandas.Series([harmless(value) for value in values], values.index, dtype=object)

    return pandas.DataFrame({harmless(name): column(table[name]) for name in table.columns})
