"""Which stage, and what differs around it."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.regression.attribution import attribute
from inferbench_tasks.regression.surroundings import differences

BASE = {"preprocess": 1.0, "transmit": 2.0, "queue": 1.5, "inference": 4.0, "postprocess": 0.5}


def runs(seed: int, **extra_ms: float) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    return [
        {name: (ms + extra_ms.get(name, 0)) * float(rng.normal(1, 0.05)) for name, ms in BASE.items()}
        for _ in range(8)
    ]


@pytest.mark.parametrize("stage", list(BASE))
def test_the_stage_that_got_slower_is_named(stage: str) -> None:
    """5 ms more in one stage: that one, with its milliseconds."""
    attribution = attribute(runs(1), runs(2, **{stage: 5.0}), slower=True)
    assert attribution.stage == stage
    part = next(p for p in attribution.parts if p.name == stage)
    assert part.change_ms == pytest.approx(5, abs=0.5) and part.share_ratio > 0.8


def test_a_queue_behind_slower_work_is_a_consequence() -> None:
    """Inference takes 3 ms more and the queue 6 ms more: inference is the cause."""
    attribution = attribute(runs(1), runs(2, inference=3.0, queue=6.0), slower=True)
    assert (attribution.stage, attribution.follows) == ("inference", ("queue",))


def test_what_got_faster_explains_an_improvement() -> None:
    """The direction counts: 3 ms less of inference, while the queue grew."""
    assert attribute(runs(1), runs(2, inference=-3.0, queue=1.0), slower=False).stage == "inference"


def test_noise_is_no_cause() -> None:
    """Without a change no stage is named."""
    assert attribute(runs(1), runs(2), slower=True).stage is None
    assert attribute([{}], [{}], slower=True).stage is None


def test_the_environments_differences_are_listed() -> None:
    """Only what differs between the sides, and not what differs between runs of both."""
    base = [
        {"environment": {"system": {"kernel": "6.1"}}, "provenance": {"versions": {"numpy": "2.1"}}},
        {"environment": {"system": {"kernel": "6.1"}}, "provenance": {"versions": {"numpy": "2.1"}}},
    ]
    candidate = [{"environment": {"system": {"kernel": "6.1"}}, "provenance": {"versions": {"numpy": "2.2"}}}]
    assert differences(base, candidate) == [
        {"field": "provenance.versions.numpy", "baseline": "2.1", "candidate": "2.2"}
    ]
    assert differences(base, base) == []
