"""Layers' times from spans, by hand."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.stack.profile import profile_of
from inferbench_tasks.tracing.spans import Span
from tests.unit.analysis.stack.spans import layer, profile


def test_layers_and_what_is_between_them_add_up() -> None:
    """Of four runs the middle two count: a takes (20 + 30) / 2 us, b 100, and 10 us are in none."""
    runs = [[layer("a", "Conv", us), layer("b", "Relu", 100)] for us in (20, 900, 30, 1)]
    found = profile(runs)
    assert [each.ms for each in found.layers] == pytest.approx([0.025, 0.100])
    assert found.framework_ms == pytest.approx(0.135)
    assert found.between_ms_by_round == pytest.approx((0.010,))
    assert (found.runs, found.left_out, found.means) == (4, 2, False)


def test_rounds_are_kept_apart() -> None:
    """A round's mean is one value, however many runs it had."""
    found = profile([[layer("a", "Conv", 10)]], [[layer("a", "Conv", 40)], [layer("a", "Conv", 20)]])
    assert found.layers[0].ms_by_round == pytest.approx((0.010, 0.030))
    assert found.layers[0].ms == pytest.approx(0.020)


def test_a_layer_that_runs_twice_is_two() -> None:
    """By its name and its place among those of that name; one that a run lacks took no time in it."""
    found = profile([[layer("a", "Conv", 10), layer("a", "Conv", 30)], [layer("a", "Conv", 20)]])
    assert [each.ms for each in found.layers] == pytest.approx([0.015, 0.015])


def test_without_layers_there_is_no_profile() -> None:
    """A run alone tells nothing of its parts."""
    spans = [
        Span("t", 0, -1, "application", "request", 0, 10),
        Span("t", 1, 0, "framework", "session.run", 0, 9),
    ]
    assert profile_of(spans) is None
