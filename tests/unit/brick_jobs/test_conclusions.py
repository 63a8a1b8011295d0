"""What the run of a model ends with that came to no figures, and what it says that it ran on."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.conclusions import _device, model_verdict
from inferbench_tasks.brick_jobs.cutting import Cutting
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.bricks.measure.method import Setting

SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")


def test_a_model_that_could_not_be_cut_is_named_with_why() -> None:
    """Where it failed, which it is, and what is allowed: nobody looks for the place in a list."""
    why = "granularity: a brick of 9 layers can't be cut from 4; allowed: 1 to 4, or whole"
    cutting = Cutting(setting=SETTING, cuts=(), todo=(), failed={1: why}, reused=0)
    verdict = model_verdict(1, "digits", [], cutting, {}, {})
    assert str(verdict) == f"failed: decompose, digits, {why}"
    assert verdict.reasons[0].stage == "decompose"


def test_bricks_are_told_of_the_device_that_timed_them() -> None:
    """On a GPU its kind and name, with the host's cores beside; on a processor the processor's."""
    asked: dict[str, Any] = {"kind": "bricks", "name": "b", "user": "u", "models": {"corpus": "paper50"}}
    gpu = asked | {"bricks": {"runtime": "onnxruntime-cuda"}, "serve": {"device": "gpu"}}
    for job, kind, name in ((gpu, "gpu", "NVIDIA L4"), (asked, "cpu", "Acme 9000")):
        setting = SETTING.model_copy(update={"processor": name})
        told = _device(BricksJob.model_validate(job), setting, 2.0)
        assert (told.kind, told.name, told.cores) == (kind, name, 2.0)
