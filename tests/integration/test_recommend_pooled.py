"""What the recommender and the leaderboard do not take for one thing: versions, methods, prices; and what they do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import leaderboard
from inferbench_tasks.analysis.recommend.recommender import recommend
from inferbench_tasks.analysis.recommend.scatter import scatter
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration


def loaded(rate_rps: float) -> dict[str, Any]:
    """An open loop's load."""
    return {"arrivals": {"kind": "poisson", "rate_rps": rate_rps}, "batch_size": 1}


def test_runs_of_other_versions_of_the_server_are_not_pooled(perfdb: PerfDB) -> None:
    """A configuration is what its newest version was measured to be; how many runs of others there are is said."""
    for at, (version, rate) in enumerate([("1.22", 100.0), ("1.22", 101.0), ("1.23", 50.0), ("1.23", 51.0)]):
        summary = {"throughput_rps": rate, "throughput_samples_per_s": rate, "e2e_latency_ms": {"p99": 5.0}}
        perfdb.save_result(
            result(
                f"run-{at}",
                submission={"name": "x", "digest": "one"},
                backend={"kind": "onnxruntime", "version": version},
                load=loaded(80),
                summary=summary,
                created_at=datetime(2026, 1, 1 + at, tzinfo=UTC),
            )
        )
    answer = recommend(perfdb, "throughput_samples_per_s", [])
    assert answer.candidates == 1 and answer.top[0]["throughput_samples_per_s"] == pytest.approx(50.5)
    assert answer.top[0]["runs"] == 2
    assert any("2 result(s) of other versions of a server" in note for note in answer.notes)


def test_energies_of_two_methods_are_not_pooled(perfdb: PerfDB) -> None:
    """An estimate of 1 J and a counter's 2 J and 2.2 J of one configuration: 2.1 J, as its newest run was measured."""
    for at, (method, joule) in enumerate([("tdp_estimate", 1.0), ("rapl", 2.0), ("rapl", 2.2)]):
        energy = {"joule_per_sample": joule, "method": method, "uncertainty_ratio": 0.03}
        rate = {"throughput_rps": 10.0, "throughput_samples_per_s": 10.0, "e2e_latency_ms": {"p99": 5.0}}
        perfdb.save_result(
            result(
                f"run-{at}",
                submission={"name": "x", "digest": "one"},
                load=loaded(80),
                summary={**rate, "energy": energy},
                created_at=datetime(2026, 1, 1 + at, tzinfo=UTC),
            )
        )
    for answer in (
        recommend(perfdb, "joule_per_sample", []),
        recommend(perfdb, "throughput_samples_per_s", [Bound("joule_per_sample", False, 1.5)]),
    ):
        assert answer.top[0]["runs"] == 2
        assert any("1 result(s) whose energy was got in another way" in note for note in answer.notes)
        assert not any("measure different" in note for note in answer.notes)
    (row,) = recommend(perfdb, "joule_per_sample", []).top
    assert row["joule_per_sample"] == pytest.approx(2.1)
    assert recommend(perfdb, "throughput_samples_per_s", []).top[0]["runs"] == 3


def test_energies_of_two_methods_are_not_chosen_between(perfdb: PerfDB) -> None:
    """0.1 J by the estimate of a server's share, 2 J by the packages' counter of another configuration: which is better
    they don't say, so what picks one is. So it is under a bound on them, and nobody asks where none is wanted.
    """
    for name, method, joule in (
        ("share", "tdp_estimate", 0.1),
        ("whole", "rapl", 2.0),
        ("more", "rapl", 3.0),
    ):
        energy = {"joule_per_sample": joule, "method": method, "uncertainty_ratio": 0.03}
        rate = {"throughput_rps": 10.0, "throughput_samples_per_s": 10.0, "e2e_latency_ms": {"p99": 5.0}}
        submission = {"name": "x", "digest": name}
        perfdb.save_result(
            result(name, submission=submission, load=loaded(80), summary={**rate, "energy": energy})
        )
    bound = Bound("joule_per_sample", True, 9.0)
    for objective, bounds in (("joule_per_sample", []), ("throughput_samples_per_s", [bound])):
        with pytest.raises(InputError, match="2 ways") as told:
            recommend(perfdb, objective, bounds)
        assert str(told.value).endswith("query:\n  energy.method=rapl\n  energy.method=tdp_estimate")
    for query, runs in (("energy.method=rapl", ["whole", "more"]), ("energy.method=tdp_estimate", ["share"])):
        assert [row["run"] for row in recommend(perfdb, "joule_per_sample", [], query).top] == runs
    assert recommend(perfdb, "throughput_samples_per_s", []).candidates == 3


def test_costs_by_two_prices_are_not_pooled(perfdb: PerfDB) -> None:
    """2 USD at 0.10 USD/h, 4 and 4.2 at the 0.20 of later: 4.1, as the newest run is priced. Beside one by a list of
    another date it is said that the list may make the difference."""

    def priced(run_id: str, at: int, digest: str, usd_per_hour: float, date: str, usd: float) -> None:
        instance = {
            "provider": "p",
            "instance": "i",
            "region": "r",
            "usd_per_hour": usd_per_hour,
            "date": date,
        }
        rate = {"throughput_rps": 10.0, "throughput_samples_per_s": 10.0, "e2e_latency_ms": {"p99": 5.0}}
        cost = {"cost": {"instances": [instance]}, "cost_usd_per_1k_samples": usd}
        perfdb.save_result(
            result(
                run_id, submission={"name": "x", "digest": digest}, load=loaded(80), summary={**rate, **cost},
                created_at=datetime(2026, 1, 1 + at, tzinfo=UTC),
            )
        )  # fmt: skip

    priced("run-0", 0, "one", 0.1, "2026-01-01", 2.0)
    priced("run-1", 1, "one", 0.2, "2026-03-01", 4.0)
    priced("run-2", 2, "one", 0.2, "2026-03-01", 4.2)
    bounded = [Bound("cost_usd_per_1k_samples", True, 5.0)]
    for objective, bounds in (("cost_usd_per_1k_samples", []), ("throughput_samples_per_s", bounded)):
        answer = recommend(perfdb, objective, bounds)
        assert answer.top[0]["runs"] == 2
        assert answer.top[0]["cost_usd_per_1k_samples"] == pytest.approx(4.1)
        assert any("1 result(s) whose cost is by another price" in note for note in answer.notes)
        assert not any("different dates" in note for note in answer.notes)
    assert recommend(perfdb, "throughput_samples_per_s", []).top[0]["runs"] == 3
    priced("run-3", 3, "two", 0.2, "2026-01-01", 9.0)
    notes = recommend(perfdb, "cost_usd_per_1k_samples", []).notes
    assert any("rates of different dates (2026-01-01; 2026-03-01)" in note for note in notes)
    assert not any("dates" in note for note in recommend(perfdb, "throughput_samples_per_s", []).notes)
    rows = leaderboard(perfdb, "cost_usd_per_1k_samples")
    assert [(row["run"], row["rank"], row["load"].split(", prices")[1]) for row in rows] == [
        ("run-3", 1, " of 2026-01-01"), ("run-2", 1, " of 2026-03-01"),
    ]  # fmt: skip


def test_the_price_of_a_result_is_read_once(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100,000 results nobody could wait for it with each answer: asked again, nothing is read of them. A run that
    came since is read, and what was priced otherwise is left out: 4 USD at 0.20 USD/h, not 2 at 0.10."""

    def priced(at: int, usd_per_hour: float, usd: float) -> None:
        instance = {"provider": "p", "instance": "i", "region": "r", "usd_per_hour": usd_per_hour}
        rate = {"throughput_rps": 10.0, "throughput_samples_per_s": 10.0, "e2e_latency_ms": {"p99": 5.0}}
        cost = {"cost": {"instances": [instance]}, "cost_usd_per_1k_samples": usd}
        perfdb.save_result(
            result(
                f"run-{at}", submission={"name": "x", "digest": "one"}, load=loaded(80), summary={**rate, **cost},
                created_at=datetime(2026, 1, 1 + at, tzinfo=UTC),
            )
        )  # fmt: skip

    asked: list[list[str]] = []
    find_raw = perfdb.find_raw

    def watched(where: Any, *rest: Any, **more: Any) -> list[dict[str, Any]]:
        if "summary.cost.instances.usd_per_hour" in (more.get("fields") or ()):
            asked.append(sorted(where["run_id"]["$in"]))
        return find_raw(where, *rest, **more)

    monkeypatch.setattr(perfdb, "find_raw", watched)
    priced(0, 0.1, 2.0)
    priced(1, 0.1, 2.0)
    for _ in range(3):
        (row,) = recommend(perfdb, "cost_usd_per_1k_samples", []).top
        assert row["runs"] == 2 and row["cost_usd_per_1k_samples"] == pytest.approx(2.0)
    assert asked == [["run-0", "run-1"]]
    priced(2, 0.2, 4.0)
    (row,) = recommend(perfdb, "cost_usd_per_1k_samples", []).top
    assert row["runs"] == 1 and row["cost_usd_per_1k_samples"] == pytest.approx(4.0)
    assert asked == [["run-0", "run-1"], ["run-2"]]


def test_a_cheaper_price_list_hides_no_later_one(perfdb: PerfDB) -> None:
    """Eleven configurations at 1 to 1.1 USD by a list of January, one at 9 by that of March: the best of either list
    stands, though all of January's are cheaper, and on the picture's front as well."""
    costs = [(f"old-{at:02}", "2026-01-01", 1 + at / 100) for at in range(11)] + [("new", "2026-03-01", 9.0)]
    for run_id, date, usd in costs:
        instance = {"provider": "p", "instance": "i", "region": "r", "usd_per_hour": 0.1, "date": date}
        summary = {
            "throughput_rps": 10.0, "throughput_samples_per_s": 10.0, "e2e_latency_ms": {"p99": 5.0},
            "cost": {"instances": [instance]}, "cost_usd_per_1k_samples": usd,
        }  # fmt: skip
        submission = {"name": "x", "digest": run_id}
        perfdb.save_result(result(run_id, submission=submission, load=loaded(80), summary=summary))
    rows = leaderboard(perfdb, "cost_usd_per_1k_samples", limit=1)
    assert [(row["run"], row["rank"], row["cost_usd_per_1k_samples"]) for row in rows] == [
        ("old-00", 1, 1.0), ("new", 1, 9.0),
    ]  # fmt: skip
    points = scatter(perfdb, "cost_usd_per_1k_samples", "throughput_samples_per_s", "model").points
    assert {(point.run, point.group) for point in points if point.front} == {
        ("old-00", "no task named, prices of 2026-01-01"), ("new", "no task named, prices of 2026-03-01"),
    }  # fmt: skip


def test_how_many_samples_there_are_at_once_changes_no_throughput(perfdb: PerfDB) -> None:
    """1,000 requests of one sample and of four: by samples/s the second is four times as good, by latency they are of
    two loads."""
    for run_id, size, rate in (("one", 1, 100.0), ("four", 4, 400.0)):
        load = {"arrivals": {"kind": "offline", "requests": 1000}, "batch_size": size, "duration_s": 60.0}
        summary = {
            "throughput_rps": rate / size, "throughput_samples_per_s": rate, "e2e_latency_ms": {"p99": 9000.0},
        }  # fmt: skip
        submission = {"name": "x", "digest": run_id}
        perfdb.save_result(result(run_id, submission=submission, load=load, summary=summary))
    rows = leaderboard(perfdb, "throughput_samples_per_s")
    assert [(row["run"], row["rank"], row["load"]) for row in rows] == [
        ("four", 1, "offline"), ("one", 2, "offline"),
    ]  # fmt: skip
    assert [row["rank"] for row in leaderboard(perfdb, "p99_ms")] == [1, 1]
    for named in (None, "offline"):
        top = recommend(perfdb, "throughput_samples_per_s", [], load=named).top
        assert [row["run"] for row in top] == ["four", "one"]
    for objective, bounds in (
        ("p99_ms", []),
        ("throughput_samples_per_s", [Bound("p99_ms", True, 9999.0)]),
    ):
        with pytest.raises(InputError, match="2 tasks, data sets, models or loads"):
            recommend(perfdb, objective, bounds)
