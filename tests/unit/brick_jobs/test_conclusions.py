"""What the run of a model ends with that came to no figures, and what it says that it ran on."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.conclusions import _device, _output, model_verdict
from inferbench_tasks.brick_jobs.cutting import Cutting
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.perfdb.documents import RunDocument, StageRecord, SubmissionInfo, utc_now

SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")


def test_a_model_that_could_not_be_cut_is_named_with_why() -> None:
    """Where it failed, which it is, and what is allowed: nobody looks for the place in a list."""
    why = "granularity: a brick of 9 layers can't be cut from 4; allowed: 1 to 4, or whole"
    cutting = Cutting(setting=SETTING, cuts=(), todo=(), failed={1: why}, reused=0)
    verdict = model_verdict(1, "digits", [], cutting, {}, {})
    assert str(verdict) == f"failed: decompose, digits, {why}"
    assert verdict.reasons[0].stage == "decompose"


def test_bricks_are_told_of_the_device_that_timed_them() -> None:
    """On a GPU its kind and name; on a processor the processor's; with the cores that the times are kept under."""
    asked: dict[str, Any] = {"kind": "bricks", "name": "b", "user": "u", "models": {"corpus": "paper50"}}
    gpu = asked | {"bricks": {"runtime": "onnxruntime-cuda"}, "serve": {"device": "gpu"}}
    for job, kind, name in ((gpu, "gpu", "NVIDIA L4"), (asked, "cpu", "Acme 9000")):
        setting = SETTING.model_copy(update={"processor": name, "cores": 2})
        told = _device(BricksJob.model_validate(job), setting)
        assert (told.kind, told.name, told.cores) == (kind, name, 2.0)


def test_what_a_shard_told_last_is_what_counts() -> None:
    """As PerfDB has it, whichever host it ran on; an attempt that did not come to its end told nothing."""

    def run(*stages: tuple[str, Any, Any]) -> RunDocument:
        records = [
            StageRecord(stage=name, attempt=at, state=state, output=output, started_at=utc_now())
            for at, (name, state, output) in enumerate(stages, 1)
        ]
        return RunDocument(
            run_id="r.002", invocation_id="r", job_id="j", started_at=utc_now(), updated_at=utc_now(), stages=records,
            submission=SubmissionInfo(name="b", user="u", digest="d"),
        )  # fmt: skip

    first, second = {"stored": ["a"]}, {"stored": ["a", "b"]}
    told = [("assign", "done", {}), ("measure", "done", first), ("measure", "done", second)]
    assert _output(run(*told, ("measure", "failed", None), ("release", "done", {}))) == second
    assert _output(run(("assign", "done", {}), ("measure", "running", None))) is None
    assert _output(None) is None
