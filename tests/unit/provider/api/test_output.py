"""What no JSON can say is null, in bodies and cells."""

from __future__ import annotations

import json
import math

import pytest

from inferbench_tasks.provider.api.output import as_csv, plain


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_null(value: float) -> None:
    """A model that answers NaN is shown, not an error 500; its neighbour keeps its figure."""
    body = plain({"samples": [{"score": value}, {"score": 0.5}], "pair": (value, 1.0)})
    assert (
        json.dumps(body, allow_nan=False)
        == '{"samples": [{"score": null}, {"score": 0.5}], "pair": [null, 1.0]}'
    )
    assert as_csv([{"score": value, "sample": 3}]).splitlines() == ["score,sample", ",3"]
