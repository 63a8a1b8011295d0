"""What no JSON can say is null, in bodies and cells."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from inferbench_tasks.provider.api.output import as_csv, as_json, plain


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_null(value: float) -> None:
    """A model that answers NaN is shown, not an error 500; its neighbour keeps its figure."""
    body = plain({"samples": [{"score": value}, {"score": 0.5}], "pair": (value, 1.0)})
    assert (
        json.dumps(body, allow_nan=False)
        == '{"samples": [{"score": null}, {"score": 0.5}], "pair": [null, 1.0]}'
    )
    assert as_csv([{"score": value, "sample": 3}]).splitlines() == ["score,sample", ",3"]


@pytest.mark.parametrize(
    "value",
    [
        {
            "at": datetime(2026, 1, 2, 3, 4, 5, 678900, UTC),
            "whole": datetime(2026, 1, 2, tzinfo=UTC),
            "none": None,
        },
        {
            "pair": (1, 2.5),
            "nested": [{"a": math.nan}, -math.inf, 1e-7, 1e22, True],
            "text": "a \u2028 é <b>",
        },
        {1: "a key that is no text", None: 2**70, "list": [2**64]},
    ],
)
def test_json_has_the_values_that_plain_has(value: Any) -> None:
    """Whichever way it is made: what the quick one has no word for takes the other."""
    assert json.loads(bytes(as_json(value).body)) == json.loads(json.dumps(plain(value)))


def test_cells_are_what_they_were() -> None:
    """Texts that a spreadsheet would run are quoted, lists are JSON, truth is a word, other numbers are themselves."""
    row = {
        "a": "=1+1",
        "b": ["x", math.nan],
        "c": True,
        "d": 5,
        "e": 0.5,
        "f": "plain",
        "g": {"k": (1,)},
        "h": None,
    }
    header, line = as_csv([row], ["z"]).splitlines()
    assert header == "z,a,b,c,d,e,f,g,h"
    assert line == ',\'=1+1,"[""x"", null]",True,5,0.5,plain,"{""k"": [1]}",'


def test_a_column_is_written_as_its_cells_are() -> None:
    """Whether all of it is of one type or not: numbers with one that is none, texts with a formula, intervals."""
    rows: list[dict[str, Any]] = [
        {"rate": 1.5, "name": "=A1", "ci95": [1.0, 2.5], "mixed": 1},
        {"rate": math.nan, "name": None, "ci95": [math.inf, 1e22], "mixed": "-1"},
        {"rate": 2, "name": "a,b", "ci95": [1, True], "mixed": 0.25},
        {"rate": None, "name": "", "ci95": None},
    ]
    assert as_csv(rows).splitlines() == [
        "rate,name,ci95,mixed",
        '1.5,\'=A1,"[1.0, 2.5]",1',
        ',,"[null, 1e+22]",\'-1',
        '2,"a,b","[1, true]",0.25',
        ",,,",
    ]
