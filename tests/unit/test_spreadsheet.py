"""What a spreadsheet would run is told as text."""

from __future__ import annotations

import io

import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest

from inferbench_tasks.provider.api.records import csv_lines
from inferbench_tasks.spreadsheet import harmless, harmless_table


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_has_a_quote_before_it(text: str) -> None:
    """And nothing else has: neither a number below 0 nor a text with such a sign in it."""
    assert harmless(text) == f"'{text}"
    assert [harmless(value) for value in (-1, "a=1", "", None)] == [-1, "a=1", "", None]


def test_all_cells_of_a_table_and_no_number_of_it() -> None:
    """Texts, kinds and names of columns; whole numbers beside a gap stay whole, times and numbers what they are."""
    table = pandas.DataFrame(
        {
            "=a": ["=1+1", "x", None],
            "kind": pandas.Categorical(["-1", "b", "-1"]),
            "whole": pandas.Series([-1_764_000_000_000_000_001, None, 3], dtype=object),
            "number": [-0.5, 1.0, 2.0],
            "at": pandas.to_datetime(["2026-01-02"] * 3, utc=True),
        }
    )
    assert harmless_table(table).to_csv(index=False).splitlines() == [
        "'=a,kind,whole,number,at",
        "'=1+1,'-1,-1764000000000000001,-0.5,2026-01-02 00:00:00+00:00",
        "x,b,,1.0,2026-01-02 00:00:00+00:00",
        ",'-1,3,2.0,2026-01-02 00:00:00+00:00",
    ]
    assert harmless_table(table[:0]).to_csv(index=False) == "'=a,kind,whole,number,at\n"


def test_raw_records_have_it_too() -> None:
    """As they are sent over REST: an error's text that a server chose is no formula."""
    file = io.BytesIO()
    table = pa.table({"status": pa.array(["ok", "=cmd()"]).dictionary_encode(), "done_ns": [1, -1]})
    pyarrow.parquet.write_table(table, file)
    file.seek(0)
    assert "".join(csv_lines(file)).splitlines() == ["status,done_ns", "ok,1", "'=cmd(),-1"]
