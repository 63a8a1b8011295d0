"""Parts of an evaluation on leaderboards, in their picture, in recommendations and of devices, on a real PerfDB."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.devices.alike import alike, newest, stored
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import board_of, leaderboard
from inferbench_tasks.analysis.recommend.recommender import recommend
from inferbench_tasks.analysis.recommend.scatter import scatter
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.analysis.builders import job_spec
from tests.unit.analysis.devices.builders import CPU, run
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration


def test_parts_of_an_evaluation_are_one_row_by_speed(perfdb: PerfDB) -> None:
    """Three parts, each with a load of its own, of 10, 12 and 11 ms, the last one the newest: one row by p99, that of
    the newest and which part it is, and one point, not the best of three. Another server's parts are another row; by
    the measure each part stands over its own samples. The recommender has two candidates, of three runs and of one."""
    for at, (name, p99, threads) in enumerate(
        (("1/3", 10.0, 1), ("2/3", 12.0, 1), ("3/3", 11.0, 1), ("1/3", 30.0, 2))
    ):
        job = {
            "name": f"named {at}",
            "serve": {"threads": threads},
            "evaluate": {"dataset": "d", "part": name},
        }
        result_of = {"dataset": "d", "samples": 7, "samples_digest": f"{at}" * 64}
        quality = {"top1_ratio": {"value": 0.9, "ci95": [0.8, 0.95]}}
        latency = {"p99": p99, "ci95": None}
        speed = {"e2e_latency_ms": latency, "throughput_rps": 10.0, "throughput_samples_per_s": 10.0}
        document = result(
            f"run-{at}", submission={"name": "x", "digest": f"{at}" * 64}, provenance={"job": job},
            extensions={"evaluation": result_of}, summary={**speed, "quality": quality},
            created_at=f"2026-01-{1 + at:02}T00:00:00Z",
        )  # fmt: skip
        perfdb.save_result(document)
    rows = leaderboard(perfdb, "p99_ms")
    assert [(row["run"], row["p99_ms"], row["part"], row["rank"]) for row in rows] == [
        ("run-2", 11.0, "3/3", 1), ("run-3", 30.0, "1/3", 2),
    ]  # fmt: skip
    assert board_of(perfdb, "p99_ms").configurations == 2
    assert [point.run for point in scatter(perfdb, "p99_ms", "throughput_rps", "backend").points] == [
        "run-3",
        "run-2",
    ]
    by_measure = leaderboard(perfdb, "top1_ratio")
    assert sorted((row["run"], row["part"]) for row in by_measure) == [
        ("run-0", "1/3"), ("run-1", "2/3"), ("run-2", "3/3"), ("run-3", "1/3"),
    ]  # fmt: skip
    found = recommend(perfdb, "p99_ms", [Bound.parse("p99_ms<=20")])
    assert (found.candidates, found.fitting) == (2, 1)
    assert found.top[0]["p99_ms"] == pytest.approx(11.0) and found.top[0]["runs"] == 3
    names = [row["configuration"].partition("threads ")[2] for row in recommend(perfdb, "p99_ms", []).top]
    assert [name.partition("threads ")[2] for name in names] == ["1", "2, part 1/3"]


def test_devices_are_compared_by_configurations_of_all_parts(perfdb: PerfDB) -> None:
    """Three parts of one server that one user waits for, at 100, 120 and 110 samples/s, are one configuration of the
    CPU with three runs, of which one had another patience; from the database as at once."""
    for at, rate in enumerate((100.0, 120.0, 110.0)):
        job = job_spec(evaluate__part=f"{1 + at}/3", load__wait_for_quiet_s=60.0 * (1 + at % 2))
        perfdb.save_result(
            ResultDocument.model_validate(
                run(f"run-{at}", CPU, 10.0, rate, provenance={"job": job.model_dump(mode="json")})
                | {"submission": {"name": "x", "digest": f"{at}" * 64}}
            )
        )
    figures = ("throughput_samples_per_s",)
    for documents in (stored(perfdb, "", figures), newest(perfdb, "", figures, 10).documents):
        ((devices,),) = [[*alike(documents).values()]]
        ((configuration,),) = devices.values()
        assert sorted(configuration.values(*figures)) == [100.0, 110.0, 120.0]
