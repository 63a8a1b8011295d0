"""A large submission in parts."""

from __future__ import annotations

from itertools import chain

import pytest

from inferbench_tasks.pipelines.bricks import BRICKS
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.plan.compile import compile_jobs, compile_plan
from inferbench_tasks.plan.parts import PART_JOBS, in_turns, parts_of
from inferbench_tasks.submission.sweep import expand
from tests.unit.plan.test_compile import submission


@pytest.mark.parametrize("size", [PART_JOBS, 1, 7])
@pytest.mark.parametrize("jobs", [1, 100, 101, 250, 10_000])
def test_each_job_is_in_one_part(jobs: int, size: int) -> None:
    """In the sweep's order, none larger than a part may be; a submission that one graph holds has none."""
    parts = parts_of(jobs, size)
    if jobs <= 2 * size:
        assert not parts
    else:
        assert list(chain.from_iterable(parts)) == list(range(jobs))
        assert max(len(part) for part in parts) <= size


def test_a_part_s_nodes_are_those_of_the_whole_plan() -> None:
    """The same ids, inputs, leases and needs."""
    big = submission(sweep={"load.seed": list(range(60)), "serve.threads": [1, 2, 3, 4]})
    jobs = expand(big)
    whole = compile_plan(big).nodes
    parts = [
        node for places in parts_of(len(jobs)) for node in compile_jobs(big, jobs[places[0] : places[-1] + 1])
    ]
    assert len(parts_of(len(jobs))) == 5
    assert parts == [node for node in whole if node.job_index is not None]


def test_blocks_and_what_follows_other_jobs_are_in_turns() -> None:
    """Their order is what their figures rest on; a sweep as it is listed has none."""
    listed = submission(sweep={"serve.threads": [1, 2]})
    blocks = submission(sweep={"serve.threads": [1, 2], "order": "interleaved", "blocks": 4})
    assert not in_turns(SERVING, expand(listed))
    assert in_turns(SERVING, expand(blocks))
    assert in_turns(BRICKS, [])
