"""The model x system table of a real PerfDB: what is held finds the same runs as reading every result."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.analysis.systems.found import Found, find, newest_models, sorted_in
from inferbench_tasks.analysis.systems.table import table
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE_USER = {"kind": "closed_loop", "concurrency": 1}
LOADS: list[dict[str, Any]] = [
    {"arrivals": ONE_USER, "batch_size": 1, "duration_s": 10.0},
    {"arrivals": {"kind": "closed_loop", "concurrency": 8}, "batch_size": 1, "duration_s": 10.0},
    {"arrivals": {"kind": "offline"}, "batch_size": 4, "duration_s": 10.0},
    {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": 1, "duration_s": 10.0},
]


def add(db: PerfDB, number: int, model: str, load: int, threads: int, **changes: Any) -> None:
    """A run of a job that is run again and again; the later by ``number`` the newer."""
    throughput = changes.pop("throughput", 100.0 + number)
    db.save_result(
        result(
            f"run-{number:03d}",
            created_at=NOW + timedelta(minutes=number),
            submission={"name": "x", "digest": f"{model} {load} {threads}"},
            model={"name": model},
            backend={
                "kind": "onnxruntime",
                "version": "1",
                "launcher": "process",
                "settings": {"threads": threads},
            },
            load=LOADS[load],
            summary={
                "e2e_latency_ms": {"mean": 5.0, "p90": 8.0 + number, "p99": 9.0},
                "throughput_samples_per_s": throughput,
                **changes.pop("summary", {}),
            },
            **changes,
        )
    )


def told(found: list[Found]) -> list[Any]:
    """What a table is made of, by the runs' names."""

    def name(document: dict[str, Any] | None) -> str | None:
        return None if document is None else str(document["run_id"])

    return [
        (
            each.about["model"],
            each.about["threads"],
            *map(name, (each.online, each.best, each.judged, each.newest)),
        )
        for each in found
    ]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_held_finds_the_runs_that_reading_every_result_finds(perfdb: PerfDB, seed: int) -> None:
    """Of 60 runs of some jobs, some invalid, without a throughput, with measures, or over an emulated network."""
    rng = random.Random(seed)
    for number in range(60):
        more: dict[str, Any] = {}
        if rng.random() < 0.15:
            more["verdict"] = "invalid: the client stalled"
        if rng.random() < 0.2:
            more["throughput"] = None
        if rng.random() < 0.3:
            more["summary"] = {"quality": {"top1_ratio": {"value": 0.9}}}
        add(perfdb, number, rng.choice(["a", "b", "c"]), rng.randrange(4), rng.choice([1, 2]), **more)
    raw = perfdb.find_raw({"verdict": "valid"}, NEWEST_FIRST, 1000)
    assert told(find(perfdb)) == told(sorted_in(map(to_plain, raw)))
    only = perfdb.find_raw({"verdict": "valid", "model.name": "b"}, NEWEST_FIRST, 1000)
    assert told(find(perfdb, ["b"])) == told(sorted_in(map(to_plain, only)))


def test_a_newer_run_takes_its_place_at_once_and_a_deleted_one_leaves_it(perfdb: PerfDB) -> None:
    """What is kept of results is theirs: the table is of what PerfDB holds at that moment."""
    add(perfdb, 1, "a", 0, 1)
    assert [row["p90_ms"] for row in table(perfdb)] == [9.0]
    add(perfdb, 2, "a", 0, 1)
    assert [(row["p90_ms"], row["online_run"]) for row in table(perfdb)] == [(10.0, "run-002")]
    perfdb.collection("results").update_one(
        {"run_id": "run-002"}, {"$set": {"summary.e2e_latency_ms.p90": 7.0}}
    )
    assert [row["p90_ms"] for row in table(perfdb)] == [7.0]
    perfdb.delete_result("run-002")
    assert [(row["p90_ms"], row["online_run"]) for row in table(perfdb)] == [(9.0, "run-001")]


def test_a_page_has_the_models_with_the_newest_results_and_says_of_how_many(
    perfdb: PerfDB, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as have room for their configurations, whole models; named ones are all there. A model that was measured
    over an emulated network alone is no error where nobody named it."""
    for number, model in enumerate(("old", "middle", "new")):
        for threads in (1, 2):
            add(perfdb, 10 * number + threads, model, 0, threads)
    assert newest_models(perfdb, 100) == (["new", "middle", "old"], 3)
    assert newest_models(perfdb, 5) == (["new", "middle"], 3)
    assert newest_models(perfdb, 1) == (["new"], 3)
    monkeypatch.setattr("inferbench_tasks.provider.ui.systems_page.MOST_ROWS", 4)
    page = http.get("/inferbench/systems").text
    assert "These are the 2 of 3 models with the newest results" in page
    assert "name=new" in page and "name=middle" in page and "name=old" not in page
    named = http.get("/inferbench/systems?model=old").text
    assert "name=old" in named and "with the newest results" not in named
    monkeypatch.setattr("inferbench_tasks.provider.ui.systems_page.MOST_ROWS", 1)
    cut = http.get("/inferbench/systems?model=old").text
    assert "These are the first 1 of 2 rows, ranked among all of them" in cut
    with pytest.raises(InputError, match="no valid run of nobody; there are some of: middle, new, old"):
        table(perfdb, ["nobody"])
    add(perfdb, 99, "away", 0, 1)
    perfdb.collection("results").update_one({"run_id": "run-099"}, {"$set": {"load.network": "wifi"}})
    assert http.get("/inferbench/systems").status_code == 200
    assert table(perfdb, ["away"], required=False) == []


def test_nothing_measured_is_no_error(perfdb: PerfDB, http: TestClient) -> None:
    """An empty PerfDB."""
    assert newest_models(perfdb, 5) == ([], 0) and table(perfdb) == []
    assert "There is no valid run yet" in http.get("/inferbench/systems").text
