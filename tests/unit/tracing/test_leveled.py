"""What instruments cost, by rounds."""

from __future__ import annotations

import math

import pytest

from inferbench_tasks.tracing.leveled import overheads


def test_ratios_are_of_the_same_round() -> None:
    """A machine that is twice as slow in one round changes no ratio; the interval is Student's over the rounds."""
    rounds = [
        {"application": 1.0, "model": 1.1},
        {"application": 2.0, "model": 2.2},
        {"application": 1.0, "model": 1.1},
    ]
    none, model = overheads(rounds, ["application", "model"])  # type: ignore[arg-type]
    assert none.ratio == 1.0
    assert model.ratio == pytest.approx(1.1)
    assert model.low == pytest.approx(1.1)
    assert model.high == pytest.approx(1.1)
    assert model.latency_ms == pytest.approx(1.1 * 2 ** (1 / 3))


def test_latencies_and_ratios_point_to_one_side() -> None:
    """One slow round of three would make the mean latency with instruments the larger one, with a ratio below 1."""
    rounds = [{"application": 1.0, "model": each} for each in (0.5, 0.5, 3.0)]
    none, model = overheads(rounds, ["application", "model"])  # type: ignore[arg-type]
    assert model.ratio < 1 and model.latency_ms / none.latency_ms == pytest.approx(model.ratio)


def test_the_interval_by_hand() -> None:
    """Ratios of 1 and e squared: e in the middle, and 12.706 standard errors of 1 to each side."""
    rounds = [{"application": 1.0, "model": 1.0}, {"application": 1.0, "model": math.e**2}]
    model = overheads(rounds, ["application", "model"])[1]  # type: ignore[arg-type]
    assert model.ratio == pytest.approx(math.e)
    assert model.low == pytest.approx(math.exp(1 - 12.706), rel=1e-3)


def test_one_round_has_no_interval() -> None:
    """Nobody knows how rounds differ."""
    (_, model) = overheads([{"application": 1.0, "layer": 1.5}], ["application", "layer"])
    assert (model.ratio, model.low, model.high) == (1.5, None, None)
