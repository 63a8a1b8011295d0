"""What stands beside a number or a name in the pages' tables: a rate that moved, and which of two models it is."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.perfdb.builders import result

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from inferbench_tasks.perfdb.store import PerfDB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
WORDS = "not steady: the throughput drifts by -22% over the load, about a level of 5065 requests/s"


def save(perfdb: PerfDB, name: str, framework: str, certificate: dict[str, Any]) -> None:
    """A user who waits, on one of two models of one name."""
    perfdb.save_result(
        result(
            name,
            submission={"name": "x", "digest": name},
            model={
                "name": "cnn", "framework": framework, "digest": framework * 4, "source_digest": framework * 4,
                "precision": "fp32", "task": "images",
            },
            load={"arrivals": {"kind": "closed_loop", "concurrency": 4}, "protocol": "http"},
            summary={
                "ok": 9000, "e2e_latency_ms": {"p50": 4.0, "p99": 5.0}, "throughput_rps": 5065.0,
                "throughput_samples_per_s": 5065.0,
            },
            certificate=certificate,
        )
    )  # fmt: skip


@pytest.fixture
def two(perfdb: PerfDB) -> None:
    save(perfdb, "steady", "torch", {"figures": {"steady_state": "steady", "throughput_change_ratio": 0.0}})
    save(
        perfdb, "moved", "tensorflow", {"figures": {"steady_state": WORDS, "throughput_change_ratio": -0.22}}
    )


@pytest.mark.parametrize(
    "path",
    ["/leaderboard?by=throughput_samples_per_s", "/leaderboard?by=p99_ms", "/leaderboard?all=1", "/runs", "/systems",
     "/model?name=cnn"],
)  # fmt: skip
def test_a_rate_that_moved_is_marked_with_its_reason(two: None, http: TestClient, path: str) -> None:
    """Once for each figure of the one run, never of the other; the reason is the mark's title."""
    text = http.get(f"/inferbench{path}").text
    row = text[text.index("tensorflow") if "tensorflow" in text else text.index("moved") :]
    assert f'title="{WORDS}">not steady</span>' in row
    assert text.count(f'title="{WORDS}">not steady</span>') == text.count(">not steady</span>")


@pytest.mark.parametrize(
    "path", ["/leaderboard", "/leaderboard?all=1", "/systems", "/devices", "/model?name=cnn"]
)
def test_two_models_of_one_name_are_told_apart(two: None, http: TestClient, path: str) -> None:
    """By their frameworks, wherever both stand."""
    text = http.get(f"/inferbench{path}").text
    assert "torch" in text and "tensorflow" in text


def test_a_program_finds_the_same_columns_with_rows_and_without(two: None, http: TestClient) -> None:
    """``model_apart`` and ``not_steady`` are in the CSV, empty where nothing is to be said."""
    url = "/inferbench/api/leaderboard?by=throughput_rps&format=csv"
    rows = {row["run"]: row for row in csv.DictReader(io.StringIO(http.get(url).text))}
    assert (rows["moved"]["model_apart"], rows["moved"]["not_steady"]) == ("tensorflow", WORDS)
    assert (rows["steady"]["model_apart"], rows["steady"]["not_steady"]) == ("torch", "")
    header = http.get(f"{url}&q=user=nobody").text.splitlines()
    assert header == [",".join(next(iter(rows.values())))]
