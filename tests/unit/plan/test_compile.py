"""The compiled plan."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

import pytest

from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.overrides import override
from inferbench_tasks.submission.schema import Submission

#: Those of a job that only loads.
STAGES = [
    entry.name
    for entry in SERVING.entries
    if not entry.facts.of_submission and entry.facts.block in (None, "load")
]


def submission(**more: Any) -> Submission:
    return Submission.model_validate(
        {
            "name": "plan-test",
            "model": {"kind": "zoo", "name": "digits"},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}},
            **more,
        }
    )


def test_a_job_has_a_node_for_each_stage_and_the_submission_one_analyze() -> None:
    """Each job runs its pipeline's stages, generate to release; one analyze waits for all of them."""
    measuring = ["generate", "convert", "serve", "load", "collect", "release"]
    assert [stage for stage in STAGES if stage in measuring] == measuring
    plan = compile_plan(submission(sweep={"serve.threads": [1, 2, 4]}))
    assert len(plan.jobs) == 3
    assert [n.stage for n in plan.nodes] == [*STAGES] * 3 + ["analyze"]
    assert plan.nodes[-1].needs == {f"job-00{i}": f"job-00{i}.release" for i in range(3)}


def test_the_outputs_that_a_stage_s_input_names_are_at_hand() -> None:
    """Each node needs its predecessor and the stages that its Input has fields for."""
    needs = {node.stage: set(node.needs) for node in compile_plan(submission()).of_job(0)}
    for entry in SERVING.entries:
        if entry.name in STAGES:
            fields = set(importlib.import_module(entry.module).Input.model_fields)
            assert needs[entry.name] >= fields & set(STAGES)
    for before, after in pairwise(STAGES):
        assert before in needs[after]
    assert needs["collect"] >= {"generate", "convert", "serve", "load"}


def test_replicas_on_hosts_of_their_own_are_stages_there_before_the_balancer() -> None:
    """One for each further host, told its number; what stands before all waits for them, and the load for that."""
    serve = {"devices": 3, "spread": "own_hosts"}
    nodes = compile_plan(submission(serve=serve)).of_job(0)
    assert [(node.stage, node.elsewhere) for node in nodes] == [
        ("generate", 0), ("convert", 0), ("serve", 0), ("replica", 1), ("replica_2", 2), ("balance", 0), ("load", 0),
        ("collect", 0), ("release", 0),
    ]  # fmt: skip
    of = {node.stage: node for node in nodes}
    assert set(of["balance"].needs) >= {"generate", "convert", "serve", "replica", "replica_2"}
    assert {"serve", "balance"} <= set(of["load"].needs) & set(of["collect"].needs)
    assert [of[name].input["number"] for name in ("replica", "replica_2")] == [1, 2]
    assert all(node.apart for node in nodes) and {node.devices for node in nodes} == {1}
    for entry in SERVING.entries:
        if entry.name in ("replica", "balance", "load", "collect"):
            fields = set(importlib.import_module(entry.module).Input.model_fields)
            assert set(of[entry.name].needs) >= fields & set(of) - {entry.name}
    here = compile_plan(submission(serve={"devices": 3})).of_job(0)
    assert not any(node.apart or node.stage in ("replica", "balance") for node in here)


def test_answers_are_judged_where_that_is_asked_for() -> None:
    """With its block ``evaluate`` stands on the device between load and collect, which gets its output."""
    nodes = {node.stage: node for node in compile_plan(submission(evaluate={})).of_job(0)}
    assert [*nodes] == ["generate", "convert", "serve", "load", "evaluate", "collect", "release"]
    assert {"generate", "convert", "serve"} <= nodes["evaluate"].needs.keys()
    assert nodes["evaluate"].lease == nodes["load"].lease is not None
    assert "evaluate" in nodes["collect"].needs


@pytest.mark.parametrize("block", ["evaluate", "trace"])
def test_a_job_without_a_load_has_no_node_for_it(block: str) -> None:
    """Its block stands on the device between serve and collect, and its length is that of the block."""
    only = submission(load=None, **{block: {}})
    nodes = compile_plan(only).of_job(0)
    assert [node.stage for node in nodes] == ["generate", "convert", "serve", block, "collect", "release"]
    assert [node.stage for node in nodes if node.lease] == ["serve", block, "collect", "release"]
    loaded = submission(load={"arrivals": {"kind": "poisson", "rate_rps": 10}, "duration_s": 500})
    assert 0 < nodes[0].expected_s < compile_plan(loaded).nodes[0].expected_s


def test_what_a_load_alone_has_can_t_be_changed_without_one() -> None:
    """A trigger that would lengthen a load that is not there is refused, in words."""
    document = submission(load=None, evaluate={}).model_dump(mode="json")
    assert override(document, {"user": "vision", "duration_s": None})["user"] == "vision"
    with pytest.raises(InputError, match=r"duration_s .*load, which this submission does not have"):
        override(document, {"duration_s": 5.0})


def test_every_need_comes_before() -> None:
    """A plan can be run in its own order."""
    done: set[str] = set()
    for node in compile_plan(submission(sweep={"load.seed": [1, 2]})).nodes:
        assert set(node.needs.values()) <= done
        done.add(node.id)


def test_a_device_is_held_from_serve_to_release() -> None:
    """The nodes from serve to release carry one lease id and the device; the others neither."""
    plan = compile_plan(submission())
    leased = [node.stage for node in plan.nodes if node.lease]
    assert leased == ["serve", "load", "collect", "release"]
    assert [node.stage for node in plan.nodes if node.opens] == ["serve"]
    assert [node.stage for node in plan.nodes if node.closes] == ["release"]
    for node in plan.nodes:
        assert node.lease in (plan.jobs[0].job_id, None)
        assert node.resource == ("cpu" if node.lease else "host")


def test_only_what_measures_nothing_is_tried_again() -> None:
    """Retries stand on the stages, and what cleans up or reports is never cancelled."""
    nodes = {node.stage: node for node in compile_plan(submission()).nodes}
    assert {stage: node.retries for stage, node in nodes.items() if node.retries} == {
        "generate": 1, "convert": 1, "release": 2, "analyze": 1,
    }  # fmt: skip
    assert {stage for stage, node in nodes.items() if node.concludes} == {"release", "analyze"}
    assert [stage for stage, node in nodes.items() if node.cleans_up] == ["release"]


def test_compiling_is_pure() -> None:
    """The same submission gives the same plan, to the last id."""
    spec = {"sweep": {"serve.threads": [1, 2], "zip": {"load.batch_size": [1, 8], "load.seed": [3, 4]}}}
    assert compile_plan(submission(**spec)) == compile_plan(submission(**spec))


def test_a_trigger_s_parameters_reach_the_job() -> None:
    """What a form changes is changed in a copy; what it leaves out stays."""
    document = submission().model_dump(mode="json")
    changed = override(document, {"duration_s": 5.0, "user": "vision", "seed": None, "unknown": 1})
    assert value_at(changed, "load.duration_s") == 5.0
    assert changed["user"] == "vision"
    assert value_at(changed, "load.seed") == value_at(document, "load.seed") == 1
    assert document["user"] == "anonymous"
