"""Parameters that make no sense are refused with a word on what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from inferbench_tasks.arrivals.base import ARRIVALS
from tests.unit.arrivals.laws import spec

_RATES = st.floats(0.01, 2000)
_RATIOS = st.floats(0, 1)
_OPEN = st.one_of(
    st.builds(lambda r: {"kind": "constant", "rate_rps": r}, _RATES),
    st.builds(lambda r: {"kind": "poisson", "rate_rps": r}, _RATES),
    st.builds(lambda r: {"kind": "server", "rate_rps": r}, _RATES),
    st.builds(lambda r, c: {"kind": "gamma", "rate_rps": r, "cv": c}, _RATES, st.floats(0.01, 20)),
    st.builds(
        lambda r, more, at, length: {
            "kind": "spike", "base_rate_rps": r, "spike_rate_rps": r + more, "spike_at_s": at, "spike_for_s": length,
        },
        _RATES, _RATES, st.floats(0, 50), st.floats(0.01, 50),
    ),
    st.builds(lambda a, more: {"kind": "ramp", "start_rate_rps": a, "end_rate_rps": a + more}, _RATES, _RATES),
    st.builds(
        lambda r, a, p, f: {"kind": "diurnal", "rate_rps": r, "amplitude_ratio": a, "period_s": p, "phase_ratio": f},
        _RATES, st.floats(0.01, 1), st.floats(0.1, 1000), st.floats(0, 0.99),
    ),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(parameters=_OPEN, duration_s=st.floats(0.001, 20), seed=st.integers(0, 2**63 - 1))
def test_any_allowed_parameters_give_a_sound_schedule(
    parameters: dict[str, Any], duration_s: float, seed: int
) -> None:
    """Ascending, within the duration, repeatable, and its length within reach of the stated mean rate."""
    process = spec(**parameters)
    offsets = process.offsets_ns(duration_s, np.random.default_rng(seed))
    assert offsets.dtype == np.int64
    assert np.all(np.diff(offsets) >= 0)
    assert len(offsets) == 0 or (offsets[0] >= 0 and offsets[-1] < duration_s * 1e9)
    assert np.array_equal(offsets, process.offsets_ns(duration_s, np.random.default_rng(seed)))
    rate_rps = process.mean_rate_rps(duration_s)
    assert rate_rps is not None
    expected = rate_rps * duration_s
    spread = max(1.0, parameters.get("cv", 1.0))
    assert abs(len(offsets) - expected) <= 10 * spread**2 + 7 * spread * np.sqrt(expected) + 1


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"kind": "constant", "rate_rps": 0}, "greater than 0"),
        ({"kind": "poisson", "rate_rps": -3}, "greater than 0"),
        ({"kind": "poisson", "rate_rps": float("nan")}, "finite"),
        ({"kind": "server", "rate_rps": 1e9}, "less than or equal to 10000000"),
        ({"kind": "poisson", "rate_rps": "80"}, "valid number"),
        ({"kind": "poisson", "rate_rps": 80, "cv": 2}, "Extra inputs"),
        ({"kind": "gamma", "rate_rps": 80, "cv": 0}, "greater than or equal to 0.01"),
        ({"kind": "gamma", "rate_rps": 80}, "cv\n"),
        ({"kind": "spike", "base_rate_rps": 9, "spike_rate_rps": 9, "spike_at_s": 1, "spike_for_s": 1},
         r"spike_rate_rps \(9\) must be above base_rate_rps \(9\)"),
        ({"kind": "spike", "base_rate_rps": 1, "spike_rate_rps": 9, "spike_at_s": -1, "spike_for_s": 1}, "spike_at_s"),
        ({"kind": "ramp", "start_rate_rps": 5, "end_rate_rps": 5}, "a steady rate is kind: poisson"),
        ({"kind": "diurnal", "rate_rps": 5, "amplitude_ratio": 1.5, "period_s": 60}, "less than or equal to 1"),
        ({"kind": "closed_loop", "concurrency": 0}, "greater than or equal to 1"),
        ({"kind": "offline", "requests": 0}, "greater than or equal to 1"),
        ({"kind": "multi_stream", "samples_per_query": 0}, "greater than or equal to 1"),
        ({"kind": "trace", "path": "../x.csv"}, "must not leave the submission's folder"),
        ({"kind": "trace", "path": "/etc/passwd"}, "relative to the submission's folder"),
        ({"kind": "trace", "path": "x.csv", "time_scale": 0}, "greater than 0"),
        ({"kind": "uniform", "rate_rps": 5}, "uniform"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(parameters: dict[str, Any], said: str) -> None:
    """Before anything starts, with the field and what is allowed."""
    with pytest.raises(ValidationError, match=said):
        spec(**parameters)


@pytest.mark.parametrize(
    ("parameters", "duration_s", "said"),
    [
        ({"kind": "poisson", "rate_rps": 1e7}, 3600, "36,000,000,000 requests in 3600 s are more than one"),
        ({"kind": "poisson", "rate_rps": 0.01}, 10, "0.1 requests are expected in 10 s; raise the rate"),
        ({"kind": "spike", "base_rate_rps": 1, "spike_rate_rps": 9, "spike_at_s": 30, "spike_for_s": 5}, 30,
         "the spike begins at 30 s, when the load of 30 s is over"),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit_the_duration_are_refused(
    parameters: dict[str, Any], duration_s: float, said: str
) -> None:
    """``check`` knows the length of the load, which the parameters alone do not."""
    process = spec(**parameters)
    with pytest.raises(ValueError, match=said):
        process.check(duration_s)


def test_every_kind_describes_its_parameters() -> None:
    """The schema has a text for each kind and each parameter, for whoever lists them."""
    for kind in ARRIVALS:
        if ARRIVALS.origin(kind) != "built-in":
            continue
        schema = ARRIVALS.load(kind).model_json_schema()
        assert schema["description"], kind
        undescribed = [k for k, v in schema["properties"].items() if k != "kind" and not v.get("description")]
        assert undescribed == [], kind
