"""What is shown of a brick's work that was counted in an older way, or not at all, on a real PerfDB."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.brick_jobs.facts import BrickFacts, Tensor
from inferbench_tasks.brick_jobs.known_bricks import put_bricks
from inferbench_tasks.cli.bricks_known import _facts
from inferbench_tasks.perfdb.store import PerfDB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/bricks"


def facts(key: str, operator: str) -> BrickFacts:
    tensor = Tensor(dtype="float32", shape=(1, 3, 8, 8))
    return BrickFacts(
        key=key * 32,
        operators=(operator,),
        inputs=(tensor,),
        outputs=(tensor,),
        weights=(),
        flops=2e6,
        moved_bytes=3e6,
    )


def test_work_that_was_counted_in_an_older_way_is_not_shown_until_it_is_counted_again(
    http: TestClient, perfdb: PerfDB
) -> None:
    """A transposed convolution of before the count was kept, then cut again; a count of now is changed by nobody."""
    of = facts("cd", "ConvTranspose")
    put_bricks(perfdb, [of])
    perfdb.collection("bricks").update_one({"_id": of.key}, {"$unset": {"count": 1}})
    assert http.get(f"{API}/{of.key}").json()["flops"] is None
    for flops in (1e6, 9e6):
        put_bricks(perfdb, [of.model_copy(update={"flops": flops})])
        assert http.get(f"{API}/{of.key}").json()["flops"] == 1e6


def test_of_an_lstm_its_outputs_are_not_shown_as_its_arithmetic(http: TestClient, perfdb: PerfDB) -> None:
    """Its bytes are, by REST and in words; of a convolution both are, about."""
    put_bricks(perfdb, [facts("ef", "LSTM"), facts("ab", "Conv")])
    found = http.get(f"{API}/{'ef' * 32}").json()
    assert (found["flops"], found["bytes"]) == (None, 3e6)
    assert "FLOP not counted, and about 3 MB moved in a run" in list(_facts(found))
    convolution = http.get(f"{API}/{'ab' * 32}").json()
    assert "about 2 MFLOP, and about 3 MB moved in a run" in list(_facts(convolution))
