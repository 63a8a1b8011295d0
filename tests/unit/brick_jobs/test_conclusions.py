"""What the run of a model ends with that came to no figures."""

from __future__ import annotations

from inferbench_tasks.brick_jobs.conclusions import model_verdict
from inferbench_tasks.brick_jobs.cutting import Cutting
from inferbench_tasks.bricks.measure.method import Setting

SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")


def test_a_model_that_could_not_be_cut_is_named_with_why() -> None:
    """Where it failed, which it is, and what is allowed: nobody looks for the place in a list."""
    why = "granularity: a brick of 9 layers can't be cut from 4; allowed: 1 to 4, or whole"
    cutting = Cutting(setting=SETTING, cuts=(), todo=(), failed={1: why}, reused=0)
    verdict = model_verdict(1, "digits", [], cutting, {}, {})
    assert str(verdict) == f"failed: decompose, digits, {why}"
    assert verdict.reasons[0].stage == "decompose"
