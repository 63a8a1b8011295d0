"""Advice: what is ranked, what is left out, and probabilities that are calculated by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.advice import advice, in_words


def row(
    device: str, ms: float | None, half: float = 0.1, coverage: float | None = 1.0, by: int | None = 3
) -> dict[str, Any]:
    """``half``: of the interval, on the logarithm."""
    interval = None if ms is None else [ms * math.exp(-half), ms * math.exp(half)]
    return {
        "model": "m", "device": device, "runtime": "r", "threads": 1, "batch_size": 2, "coverage_ratio": coverage,
        "predicted_ms": ms, "predicted_interval_ms": interval, "calibrated_by": by, "missing": 2, "unique": 5,
    }  # fmt: skip


def test_the_top_three_with_the_probability_that_each_beats_the_next() -> None:
    """10 against 11 ms, each off by 0.1 (95%): log 1.1 = 0.0953 over root 2 x 0.1 / 1.96 = 0.0722 is 1.321
    deviations, so 90.7%. The third is compared with the fourth, which is not shown."""
    found = advice([row("b", 11.0), row("d", 40.0), row("a", 10.0), row("c", 20.0)])
    assert [(one["rank"], one["device"]) for one in found["ranked"]] == [(1, "a"), (2, "b"), (3, "c")]
    first, _, third = found["ranked"]
    assert first["faster_than_next_probability"] == pytest.approx(0.9067, abs=1e-3)
    assert third["faster_than_next_probability"] == pytest.approx(1.0, abs=1e-6)
    assert first["per_s"] == pytest.approx(200) and found["judged"] == 4
    assert first["within_slo_probability"] is None


def test_the_slo_is_a_probability_too() -> None:
    """At its own latency a half; 10% above it log 1.1 / (0.1 / 1.96) = 1.868 deviations: 96.9%."""
    assert advice([row("a", 10.0)], 10.0)["ranked"][0]["within_slo_probability"] == pytest.approx(0.5)
    found = advice([row("a", 10.0)], 11.0)
    assert found["ranked"][0]["within_slo_probability"] == pytest.approx(0.9691, abs=1e-3)
    assert not any("likely" in text for text in in_words(found))
    assert any(
        "None of them is likely to take at most 5 ms" in t for t in in_words(advice([row("a", 10.0)], 5.0))
    )


def test_what_is_not_measured_enough_is_never_ranked() -> None:
    """However fast it would be: mostly estimated, or without a figure; that comes first in the words."""
    found = advice([row("guess", 1.0, coverage=0.89), row("none", None, coverage=None), row("a", 10.0)])
    assert [one["device"] for one in found["ranked"]] == ["a"]
    assert [one["device"] for one in found["left_out"]] == ["guess", "none"]
    assert in_words(found)[0] == "Left out: m on guess: only 89% of its time is measured, 90% are needed."
    assert "2 of 5 unique bricks have no time there" in in_words(found)[1]
    assert "Nothing can be recommended: no prediction is measured enough." in in_words(
        advice([row("none", None, coverage=None)])
    )


def test_no_probability_of_what_is_not_calibrated() -> None:
    """Its interval leaves out what cutting changes; of two neither may lack it."""
    found = advice([row("a", 10.0), row("b", 30.0, by=None)], 10.0)
    assert [one["faster_than_next_probability"] for one in found["ranked"]] == [None, None]
    assert [one["within_slo_probability"] for one in found["ranked"]] == [pytest.approx(0.5), None]
    assert any("there is no probability" in text for text in in_words(found))


def test_an_interval_that_reaches_zero_tells_no_probability() -> None:
    """Of such a prediction only the rank is said."""
    wide = row("a", 10.0) | {"predicted_interval_ms": [0.0, 30.0]}
    assert advice([wide, row("b", 20.0)], 15.0)["ranked"][0]["within_slo_probability"] is None
