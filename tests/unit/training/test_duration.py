"""How long a training is expected to take."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.training.duration import AROUND_S, STEP_S, probe_steps
from inferbench_tasks.training.job import TrainingJob


def job(**blocks: dict[str, Any]) -> TrainingJob:
    base: dict[str, Any] = {"kind": "training", "name": "x", "data": {"kind": "digits", "samples": 320}}
    return TrainingJob.model_validate(base | {name: base.get(name, {}) | of for name, of in blocks.items()})


def test_the_probes_behind_the_last_epoch_count() -> None:
    """10 steps in 3 rounds of two epochs, and the probes' repeats: each of 13 steps."""
    spec = job()
    assert probe_steps(spec) > 4 * 13
    assert TRAINING.expected_s(spec) == pytest.approx(AROUND_S + STEP_S * (60 + probe_steps(spec)))


def test_what_is_not_probed_takes_no_time() -> None:
    """Smooth inference has no steps by themselves, a compiled network the optimiser's, large batches none of another
    size; a network with its data on the device gets no batch from anybody.
    """
    assert probe_steps(job(train={"benchmark": "smooth_inference"}, data={"samples": 8})) == 0
    compiled, plain, large = (
        probe_steps(job(train=train)) for train in ({"compile": True}, {}, {"batch_size": 65})
    )
    assert compiled < large < plain
    without = probe_steps(job(train={"compile": True, "benchmark": "inference"}))
    assert compiled == without + 4 * 13, "the optimiser is not compiled"
    assert probe_steps(job(data={"where": "device"})) < plain
    assert probe_steps(job(loader={"workers": 2})) > plain
    assert probe_steps(job(devices={"threads": 4})) == plain + 13
