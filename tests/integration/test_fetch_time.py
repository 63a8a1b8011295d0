"""What the hosts of a job have to fetch, by what its earlier stages handed on and PerfDB's list of artifacts."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.executors.fetched import LEAST_BYTES_PER_S, fetch_s
from inferbench_tasks.stores.ledger import COLLECTION
from tests.unit.analysis.builders import job_spec

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
SOURCE, SERVED, REQUESTS = ("a" * 64, "b" * 64, "c" * 64)
BYTES = {SOURCE: 7_000_000_000, SERVED: 3_000_000_000, REQUESTS: 50_000_000}


def handed_on(db: PerfDB, run_id: str, **job: Any) -> None:
    """A run whose model is made and converted, and waits for its devices."""
    db.start_run(run_id, "inv", "job", job_spec(**job).model_dump(mode="json"))
    outputs: dict[str, dict[str, Any]] = {
        "generate": {
            "model": {"path": f"artifact:{SOURCE}/model.pt"},
            "requests": {"path": f"artifact:{REQUESTS}/requests.npz"},
        },
        "convert": {"model": {"path": f"artifact:{SERVED}/model.onnx"}},
    }
    for stage, output in outputs.items():
        db.stage_started(run_id, stage)
        db.stage_finished(run_id, stage, output=output, duration_s=1.0)
    for digest, size in BYTES.items():
        db.collection(COLLECTION).update_one(
            {"_id": digest}, {"$set": {"bytes": size}, "$currentDate": {"used_at": True}}, upsert=True
        )


def test_each_host_fetches_what_its_stages_open(perfdb: PerfDB) -> None:
    """Of three hosts with a replica each the converted model and the requests, once each, and nobody the model that it
    was converted from.
    """
    job = {"serve__devices": 3, "serve__spread": "own_hosts"}
    handed_on(perfdb, "inv.000", **job)
    each = BYTES[SERVED] + BYTES[REQUESTS]
    assert fetch_s(perfdb, "inv.000", job_spec(**job)) == pytest.approx(3 * each / LEAST_BYTES_PER_S)


def test_a_client_host_fetches_no_model(perfdb: PerfDB) -> None:
    """The requests alone, where the load comes from it."""
    job = {"load__from": "other_host"}
    handed_on(perfdb, "inv.000", **job)
    bytes_ = BYTES[SERVED] + 2 * BYTES[REQUESTS]
    assert fetch_s(perfdb, "inv.000", job_spec(**job)) == pytest.approx(bytes_ / LEAST_BYTES_PER_S)


def test_a_job_on_one_host_is_left_alone(perfdb: PerfDB) -> None:
    """And so is one whose stages handed on nothing that PerfDB knows."""
    handed_on(perfdb, "inv.000")
    assert fetch_s(perfdb, "inv.000", job_spec()) == 0
    apart = job_spec(serve__devices=2, serve__spread="own_hosts")
    assert fetch_s(perfdb, "inv.001", apart) == 0
