"""``trace.batch_size``: what it can't be is refused before anything starts, and jobs without it are what they were."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.pipelines.serving_seconds import ALONE_S
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.traced import TraceSpec
from tests.unit.submission.test_check import spec

BATCHING = {"serve": {"backend": "onnxruntime", "batching": {"max_batch_size": 8}}}


def said(job: JobSpec) -> list[tuple[tuple[str, ...], str]]:
    """The fields and the words of what is refused of its trace's batch."""
    found = INSTALLED.findings(job)
    return [(tuple(each.fields), each.message) for each in found if "trace.batch_size" in each.fields]


def test_a_batch_that_can_not_be_traced_is_refused() -> None:
    """One of a load without a load, one beyond what the server takes, and beside ``one_in`` any, each with a remedy."""
    ((fields, words),) = said(spec({}, trace={"batch_size": 9}, **BATCHING))
    assert (
        fields == ("trace.batch_size", "serve.batching.max_batch_size") and "9 samples per request" in words
    )
    alone = spec({}, trace={"batch_size": "load"}).model_copy(update={"load": None})
    ((fields, words),) = said(alone)
    assert fields == ("trace.batch_size", "load") and "give a number" in words
    ((fields, words),) = said(spec({}, trace={"batch_size": 8, "one_in": 20}))
    assert fields == ("trace.one_in", "trace.batch_size") and "leave trace.batch_size out" in words


@pytest.mark.parametrize("size", [1, 8, "load"])
def test_any_other_is_taken(size: int | str) -> None:
    """Up to the server's own bound, and as many as the load has."""
    assert said(spec({"batch_size": 4}, trace={"batch_size": size}, **BATCHING)) == []


def test_a_job_without_it_is_what_it_was_and_another_batch_is_another_job() -> None:
    """Its digest leaves the field out, so that results of before stay those of the same job."""
    blocks: list[dict[str, Any]] = [{}, {"batch_size": 1}, {"batch_size": 8}, {"batch_size": "load"}]
    assert len({job_digest(spec({}, trace=block)) for block in blocks}) == 4
    assert job_digest(spec({}, trace={})) == job_digest(spec({}, trace={"batch_size": None}))


@pytest.mark.parametrize(
    ("block", "of_model", "size"),
    [
        ({}, None, 1), ({}, 4, 4), ({"batch_size": 8}, None, 8), ({"batch_size": "load"}, None, 3),
        ({"batch_size": 4}, 4, 4), ({"one_in": 20}, None, 3),
    ],
)  # fmt: skip
def test_how_many_samples_a_traced_request_has(
    block: dict[str, Any], of_model: int | None, size: int
) -> None:
    """What was asked for, else the model's own batch, else one; of a share of a load of three a request three."""
    assert TraceSpec.model_validate(block).samples_per_request(3, of_model) == size


def test_a_larger_batch_is_foretold_to_take_longer() -> None:
    """In each of 3 rounds x 4 levels 30 requests of 8 samples instead of one, twice, as a warm-up asks them too."""
    one, eight = (SERVING.expected_s(spec({}, trace=block)) for block in ({}, {"batch_size": 8}))
    assert eight - one == pytest.approx(3 * 4 * 2 * 30 * 7 * ALONE_S)
