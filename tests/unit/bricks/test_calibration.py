"""Factors by class of brick: what they are fitted to, and how far they are said to be off, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inferbench_tasks.bricks.calibration import CLASSES, RIDGE, Whole, class_factors, class_of
from inferbench_tasks.bricks.prediction import Estimate

#: Student's for 95% with four degrees of freedom.
T4 = 2.7764451051977987
#: Constructed times by class, ns: models that are mostly arithmetic, mostly memory, and of both.
PARTS = [(90, 10, 0), (80, 20, 0), (20, 80, 0), (10, 90, 0), (50, 50, 0)]


def whole(parts: tuple[float, ...], factors: tuple[float, ...]) -> Whole:
    return Whole(
        math.fsum(f * ns for f, ns in zip(factors, parts, strict=True)),
        dict(zip(CLASSES, parts, strict=True)),
    )


def test_three_models_tell_one_factor_only() -> None:
    """Three factors would fit them whatever they are."""
    assert class_factors([whole(parts, (1, 2, 1)) for parts in PARTS[:3]]) is None


def test_models_that_are_all_off_alike_give_each_class_that_factor() -> None:
    """1.1 times the sum, all of them: nothing is left over."""
    found = class_factors([whole(parts, (1.1, 1.1, 1.1)) for parts in PARTS])
    assert found is not None and found.spread == pytest.approx(0, abs=1e-9)
    assert [found.factors[name] for name in CLASSES] == pytest.approx([1.1] * 3)


def test_the_factors_are_a_ridge_regression_of_relative_errors() -> None:
    """Solved as least squares with a row for each class that wants the one factor; no model tells of the third."""
    wholes = [whole(parts, (1.0, 1.5, 1.0)) for parts in PARTS]
    found = class_factors(wholes)
    assert found is not None
    one = math.exp(np.mean([one.log_ratio for one in wholes]))
    table = np.array([[one.class_ns[name] / one.ns for name in CLASSES] for one in wholes])
    rows = np.vstack([table, math.sqrt(RIDGE) * np.eye(3)])
    wanted = np.concatenate([np.ones(len(PARTS)), np.full(3, math.sqrt(RIDGE) * one)])
    factors = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    assert [found.factors[name] for name in CLASSES] == pytest.approx(list(factors))
    assert found.factors["dense"] < one < found.factors["memory-bound"]
    assert found.factors["other"] == pytest.approx(one)


def test_how_far_they_are_off_is_of_models_that_are_left_out() -> None:
    """Each of the five by the four others; where classes differ that is less than with one factor. A new model's
    interval is Student's quantile of it."""
    wholes = [whole(parts, (1.0, 1.5, 1.0)) for parts in PARTS]
    found = class_factors(wholes)
    assert found is not None and 0 < found.spread < found.one_spread / 2
    logs = []
    for at, own in enumerate(wholes):
        others = class_factors([*wholes[:at], *wholes[at + 1 :]])
        assert others is not None
        logs.append(math.log(others.constructed_ns(own.class_ns) / own.ns))
    assert found.spread == pytest.approx(math.sqrt(np.mean(np.square(logs))))
    estimate = found.calibrated(Estimate(100.0, 100.0, 100.0), wholes[0].class_ns)
    assert estimate.ns == pytest.approx(found.constructed_ns(wholes[0].class_ns))
    assert estimate.high_ns / estimate.ns == pytest.approx(math.exp(T4 * found.spread))


def test_classes_follow_the_work() -> None:
    """8 FLOP for each byte and more are dense; what is not counted is neither."""
    assert class_of(["Conv"], 800, 100) == "dense" and class_of(["Relu"], 799, 100) == "memory-bound"
    assert class_of(["Conv", "Relu"], 800, 100) == "dense"
    assert class_of(["com.microsoft.Attention"], 1e9, 1) == class_of(["LSTM"], 1e9, 1) == "other"
