"""The stages of a plan, as they are shown before a submission is sent."""

from __future__ import annotations

from inferbench_tasks.pipelines.base import pipeline_of, submission_in
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.provider.api.plan import planned_stages


def test_stages_of_a_swept_block_stand_in_the_pipeline_s_order() -> None:
    """The second of two jobs alone is evaluated: that stage is one job's, and stands where it runs."""
    submission = submission_in(
        {
            "name": "swept",
            "model": {"kind": "zoo", "name": "digits"},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}, "duration_s": 5},
            "sweep": {"evaluate": [None, {}]},
        }
    )
    pipeline = pipeline_of(submission)
    shown = planned_stages(pipeline, compile_plan(submission).nodes)
    names = [stage.name for stage in shown]
    assert names == [entry.name for entry in pipeline.entries if entry.name in names]
    jobs = {stage.name: stage.jobs for stage in shown}
    assert (jobs["evaluate"], jobs["load"]) == (1, 2)
    assert names.index("evaluate") < names.index("collect") < names.index("release")
    assert [stage.of_submission for stage in shown] == sorted(stage.of_submission for stage in shown)


def test_a_stage_that_a_job_has_several_times_is_shown_each_time() -> None:
    """By its names, where it runs: of two jobs the second one's load comes from three hosts."""
    submission = submission_in(
        {
            "name": "shared",
            "model": {"kind": "zoo", "name": "digits"},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}, "from": "other_host"},
            "sweep": {"load.client_hosts": [1, 3]},
        }
    )
    shown = planned_stages(pipeline_of(submission), compile_plan(submission).nodes)
    assert [(stage.name, stage.jobs) for stage in shown][2:6] == [
        ("serve", 2), ("standby", 1), ("standby_2", 1), ("load", 2),
    ]  # fmt: skip
    assert all(stage.leased for stage in shown[2:6])
