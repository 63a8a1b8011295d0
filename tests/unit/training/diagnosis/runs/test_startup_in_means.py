"""What the first steps of an epoch add to BenchmarkJade's means."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import causes_of
from tests.unit.training.diagnosis.observations import observe


def wrong(columns: dict[str, float] | None, steady: dict[str, float] | None, **more: Any) -> list[Cause]:
    run = observe(None, loading_ms=2, jade={"columns": columns, "without_warmup": steady}, **more)
    return [cause for cause in causes_of(run) if cause.rule == "startup_in_means"]


def test_a_mean_with_the_loaders_start_in_it_is_told() -> None:
    """9 ms of loading of which 7 are the loader's start, in a step of 12; 0.1 ms more of forward are none."""
    (cause,) = wrong(
        {"loading": 0.009, "forward": 0.0101}, {"loading": 0.002, "forward": 0.01}, workers=2, start_ms=40.0
    )
    assert cause.kind == "wrong" and cause.cost_s is None
    assert cause.sentence.startswith(
        "BenchmarkJade's loading of 9 ms a step is no step's: over the measured steps it is 2 ms"
    )
    assert cause.evidence[0].startswith("loading: 9 ms over all steps, 2 ms without")
    assert cause.evidence[-1] == "starting its loader's processes takes 40 ms of each epoch"


def test_means_of_steps_that_are_alike_are_not() -> None:
    """0.5 of 12 ms are below 5%; nor is anything said of a run without that timing, or with too few steps for it."""
    assert wrong({"loading": 0.0025, "forward": 0.01}, {"loading": 0.002, "forward": 0.01}) == []
    assert wrong(None, None) == [] and wrong({"loading": 0.009}, None) == []
    assert causes_of(observe(None, loading_ms=0)) == []
