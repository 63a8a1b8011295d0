"""What a process holds of the valid results: always what PerfDB has, and answers as from all documents."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import leaderboard
from inferbench_tasks.analysis.recommend.recommender import choose, recommend
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields, frames
from inferbench_tasks.perfdb.documents import ResultDocument, utc_now
from inferbench_tasks.perfdb.held import held, identity
from inferbench_tasks.perfdb.indexes import held_indexes
from inferbench_tasks.perfdb.offered import of_requests, offered
from inferbench_tasks.perfdb.patterns import _MOST, resolved
from inferbench_tasks.perfdb.queries import matches, parse
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored
from inferbench_tasks.provider.ui.colours import colours
from tests.unit.perfdb.builders import latency, result

pytestmark = pytest.mark.integration
QUERIES = (
    "", "model=m1", "model=m* backend=triton,onnxruntime", "user=u1 since=40d", "until=20d", "batch>=4", "batch=none",
    "settings.threads=2", "protocol=grpc p99<30", "goodput!=none", "model_version=2 user!=u1", "model=nothing",
)  # fmt: skip

ASKED = (
    "p99_ms", "throughput_rps", "goodput_rps", "cost_usd_per_1k_samples", "resources.client.cpu_cores.mean",
)  # fmt: skip


def generated(count: int, seed: int, start: int = 0) -> Iterator[ResultDocument]:
    """Few configurations, run many times: invalid ones, second attempts, equal and missing figures and times."""
    rng, now = random.Random(seed), utc_now()
    for number in range(start, start + count):
        p99 = rng.choice([None, 10.0, 20.0, rng.uniform(5, 50)])
        stats: dict[str, Any] = {"p50": p99 and p99 / 2, "p99": p99}
        if p99 and rng.random() < 0.5:
            stats["ci95"] = {"p99": [p99 * 0.8, p99 * 1.1]}
        configuration = rng.randrange(12)
        yield result(
            f"run-{number // 3}",
            attempt=1 + number % 3,
            created_at=now - timedelta(days=rng.randrange(60), seconds=number),
            submission={"name": "x", "user": f"u{rng.randrange(3)}",
                        "digest": f"{configuration:064x}" if configuration else None},
            model={"name": f"m{configuration % 3}", "version": rng.randrange(3),
                   "task": rng.choice([None, "text"]) if configuration == 5 else "image",
                   "dataset": "d" if configuration % 2 else None},
            backend={"kind": rng.choice(["onnxruntime", "triton", "openvino"]),
                     "settings": {"threads": rng.choice([1, 2])}},
            device={"kind": "cpu", "name": rng.choice([None, "A", "B"]), "cores": rng.choice([None, 2.0])},
            load={"arrivals": {"kind": "poisson"}, "batch_size": rng.choice([None, 1, 4]), "network": "lan",
                  "protocol": rng.choice(["grpc", "http"])},
            summary={"e2e_latency_ms": stats, "throughput_rps": rng.choice([50.0, rng.uniform(1, 100)]),
                     "throughput_samples_per_s": rng.uniform(1, 100),
                     "cost_usd_per_1k": rng.random(), "cost_usd_per_1k_samples": rng.choice([None, rng.random()]),
                     "resources": {"client": {"cpu_cores": {"mean": rng.choice([None, rng.random()])}}}},
            verdict=rng.choice(["valid", "valid", "valid", "invalid: late"]),
        )  # fmt: skip


def add(db: PerfDB, count: int, seed: int, start: int = 0) -> None:
    db.collection("results").insert_many(
        [dict(to_stored(document)) for document in generated(count, seed, start)]
    )


def matching(db: PerfDB, query: str) -> list[dict[str, Any]]:
    """All valid results that match, whole, newest first: read the slow, obvious way."""
    where = {"$and": [parse(query).filter, {"verdict": "valid"}]}
    order = [("created_at", -1), ("run_id", 1), ("attempt", 1)]
    return [to_plain(document) for document in db.find_raw(where, order)]


def obvious_board(
    documents: list[dict[str, Any]], metric: str
) -> list[tuple[str | None, str | None, str, Any]]:
    """Task, data set, run and figure of each place among these, by task, data set and load."""
    figure = fields.field(metric)
    newest: dict[Any, dict[str, Any]] = {}
    for document in documents:
        if figure.value(document) is not None:
            digest, device = document["submission"]["digest"], document["device"]
            key = (digest or document["run_id"], device["name"], device["cores"])
            newest.setdefault(key, document)
    sign = -1 if FIGURES.named(metric).higher else 1
    by_request = FIGURES.named(metric).per_sample is not None

    def ground(document: dict[str, Any]) -> tuple[str, str, str]:
        model, load = document["model"], document["load"]
        text = of_requests(offered(load), load["batch_size"]) if by_request else offered(load)
        return model["task"] or "", model["dataset"] or "", text

    places = sorted(newest.values(), key=lambda document: sign * figure.value(document))
    places.sort(key=ground)
    return [(d["model"]["task"], d["model"]["dataset"], d["run_id"], figure.value(d)) for d in places]


def grounds(documents: list[dict[str, Any]]) -> dict[tuple[str, str, str, str], list[dict[str, Any]]]:
    """What can be recommended among: by task, data set, load, and model where nobody measured an accuracy."""
    by_ground: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for document in documents:
        model, load = document["model"], offered(document["load"])
        place = (model["task"] or "", model["dataset"] or "", model["name"], load)
        by_ground.setdefault(place, []).append(document)
    return by_ground


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_answers_are_those_of_all_documents(perfdb: PerfDB, seed: int) -> None:
    """Leaderboard and recommendation by every kind of figure and query, before and after more was written."""
    for start in (0, 400):
        add(perfdb, 400, seed + start, start)
        for query in QUERIES:
            documents = matching(perfdb, query)
            for metric in ASKED:
                rows = leaderboard(perfdb, metric, query, limit=1000)
                found = [(r["task"], r["dataset"], r["run"], r[metric]) for r in rows]
                assert found == obvious_board(documents, metric), (metric, query)
            for bounds in ([], [Bound("p99_ms", True, 45.0)], [Bound("throughput_rps", False, 10.0)]):
                for objective in ("throughput_samples_per_s", "cost_usd_per_1k"):
                    if len(grounds(documents)) > 1:
                        with pytest.raises(InputError, match="between which no figure chooses"):
                            recommend(perfdb, objective, bounds, query)
                    else:
                        mine = recommend(perfdb, objective, bounds, query)
                        assert mine == choose(documents, objective, bounds), (query, bounds)


def test_each_ground_answers_as_its_documents_do(perfdb: PerfDB) -> None:
    """Task, data set, model and load pick what can be compared: the recommendation is that of these documents."""
    add(perfdb, 400, seed=1)
    bounds = [Bound("p99_ms", True, 45.0)]
    by_ground = grounds(matching(perfdb, ""))
    whole = [ground for ground in by_ground if ground[0] and ground[1]]  # no query asks for what is not there
    assert len(whole) >= 3
    for task, dataset, model, load in whole:
        query = f"task={task} dataset={dataset} model={model}"
        mine = recommend(perfdb, "throughput_samples_per_s", bounds, query, load)
        assert mine == choose(by_ground[task, dataset, model, load], "throughput_samples_per_s", bounds)


def test_it_is_what_others_write_and_delete(perfdb: PerfDB) -> None:
    """A second connection's results appear and disappear here at once; invalid ones never appear."""
    mine = held(perfdb)
    assert not mine.rows()
    other = PerfDB.connect(perfdb.uri, Path("/nonexistent"))
    for name in ("a", "b", "c"):
        other.save_result(latency(name, 10.0))
        assert (name, 1) in {identity(row) for row in mine.rows()}
    other.save_result(latency("d", 10.0, verdict="invalid: late"))
    other.delete_result("b")
    assert {identity(row)[0] for row in mine.rows()} == {"a", "c"}
    other.save_result(latency("e", 10.0))
    assert {identity(row)[0] for row in mine.rows()} == {"a", "c", "e"}


@pytest.mark.parametrize("seed", [5, 6])
def test_after_any_changes_it_is_what_all_documents_say(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Written, changed, found invalid and valid again, deleted, and written anew under the same name, by somebody
    else: nothing is read again as a whole, and rows, boards and a setting that is not held are of what is there.
    """
    rng = random.Random(seed)
    add(perfdb, 60, seed)
    mine = held(perfdb)
    mine.rows()
    monkeypatch.setattr(type(mine), "_load", lambda self: pytest.fail("everything was read again"))
    other = PerfDB.connect(perfdb.uri, Path("/nonexistent"))
    results = other.collection("results")
    for turn in range(12):
        leaderboard(perfdb, "p99_ms")
        for _ in range(rng.choice([1, 3])):
            one = {"run_id": f"run-{rng.randrange(20)}", "attempt": rng.randrange(1, 4)}
            change = rng.choice(["figure", "setting", "verdict", "delete", "remove", "replace"])
            if change == "delete":
                results.delete_one(one)
            elif change == "remove":
                other.delete_result(str(one["run_id"]))
            elif change == "replace":
                results.delete_one(one)
                add_one = next(generated(1, 100 * seed + turn)).model_copy(update=one)
                results.insert_one(dict(to_stored(add_one)))
            else:
                value = {
                    "figure": {"summary.e2e_latency_ms.p99": rng.uniform(1, 60)},
                    "setting": {"backend.settings.threads": rng.randrange(9)},
                    "verdict": {"verdict": rng.choice(["valid", "invalid: late"])},
                }
                results.update_one(one, {"$set": value[change]})
        documents = matching(perfdb, "")
        rows = mine.rows()
        threads = mine.values("backend.settings.threads")
        assert {identity(row): threads(row) for row in rows} == {
            (d["run_id"], d["attempt"]): d["backend"]["settings"]["threads"] for d in documents
        }
        board = leaderboard(perfdb, "p99_ms", limit=100)
        assert [(r["task"], r["dataset"], r["run"], r["p99_ms"]) for r in board] == obvious_board(
            documents, "p99_ms"
        )


@pytest.mark.parametrize("bare", [False, True], ids=["as_stored", "without_extensions"])
def test_who_deletes_a_result_says_which(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch, bare: bool) -> None:
    """Then no names are read to find it; also of a result that was stored before there were extensions."""
    add(perfdb, 9, seed=1)
    perfdb.save_result(latency("goes", 10.0))
    if bare:
        perfdb.collection("results").update_one({"run_id": "goes"}, {"$unset": {"extensions": ""}})
    mine = held(perfdb)
    before = {identity(row) for row in mine.rows()}
    monkeypatch.setattr("inferbench_tasks.perfdb.held._read", lambda *_: pytest.fail("names were read"))
    assert PerfDB.connect(perfdb.uri, Path("/nonexistent")).delete_result("goes") == 1
    assert {identity(row) for row in mine.rows()} == before - {("goes", 1)}


def test_what_was_taken_in_by_halves_is_read_again(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong amid a change: the next question has the answer of what is there."""
    for name in ("stays", "goes"):
        perfdb.save_result(latency(name, 10.0))
    mine = held(perfdb)
    assert len(mine.rows()) == 2
    perfdb.delete_result("goes")
    perfdb.save_result(latency("new", 10.0))
    with monkeypatch.context() as patched:
        patched.setattr(type(mine), "_give_up", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mine.rows()
    assert {identity(row)[0] for row in mine.rows()} == {"stays", "new"}


def test_boards_and_colours_show_each_change_at_once(perfdb: PerfDB) -> None:
    """A result that is written, annotated, found invalid, or deleted by somebody else: ranks, intervals, cells, and the
    settings that the picture can be coloured by are those of what is there now, though all were shown before.
    """
    other = PerfDB.connect(perfdb.uri, Path("/nonexistent"))
    results = other.collection("results")

    def board() -> list[tuple[int, str, Any, str]]:
        return [(r["rank"], r["run"], r["ci95"], r["backend"]) for r in leaderboard(perfdb, "p99_ms")]

    def settings() -> list[str]:
        return colours(perfdb)["Settings of the server"]

    for name, p99 in (("a", 10.0), ("b", 30.0)):
        other.save_result(latency(name, p99, submission={"name": "x", "user": "u", "digest": name * 64}))
    assert [row[:2] for row in board()] == [(1, "a"), (2, "b")] == [row[:2] for row in board()]
    before = settings()
    results.update_one(
        {"run_id": "a"}, {"$set": {"summary.e2e_latency_ms.p99": 90.0, "backend.kind": "other"}}
    )
    assert [row[:2] for row in board()] == [(1, "b"), (2, "a")]
    assert board()[1][3] == "other"
    results.update_one({"run_id": "b"}, {"$set": {"summary.e2e_latency_ms.ci95": {"p99": [29.0, 31.0]}}})
    assert board()[0][2] == [29.0, 31.0]
    results.update_one({"run_id": "a"}, {"$set": {"backend.settings": {"new_one": 3}}})
    assert settings() == sorted({*before, "settings.new_one"})
    other.save_result(latency("c", 1.0, submission={"name": "x", "user": "u", "digest": "c" * 64}))
    assert [row[:2] for row in board()] == [(1, "c"), (2, "b"), (3, "a")]
    results.update_one({"run_id": "b"}, {"$set": {"verdict": "invalid: late"}})
    assert [row[:2] for row in board()] == [(1, "c"), (2, "a")]
    other.delete_result("c")
    assert [row[:2] for row in board()] == [(1, "a")]
    other.delete_result("a")
    assert board() == [] and settings() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_lists_by_patterns_are_those_of_all_documents(perfdb: PerfDB, seed: int) -> None:
    """Whatever the pattern fits: nothing, some names beside one that is named, all; newest first and by a figure."""
    add(perfdb, 120, seed)
    everything = [to_plain(document) for document in perfdb.find_raw({})]
    for query in (
        "model=*zzz", "model=m*", "model=?1,m2", "model=m1*,none", "backend=tr* model=m?", "user=u*", "user=*9,u1",
        "submission=*", "submission=y*", "model!=m1*", "model=*zzz,m0",
    ):  # fmt: skip
        expected = {(d["run_id"], d["attempt"]) for d in everything if matches(parse(query).filter, d)}
        for sort in ("", "p99_ms"):
            found = frames.rows(perfdb, query, sort)
            assert {(row["run"], row["attempt"]) for row in found} == expected, (query, sort)
            assert len(found) == len(expected)


def test_more_names_than_are_read_one_by_one_stay_a_pattern(perfdb: PerfDB) -> None:
    """The list is the same."""
    add(perfdb, 3, 1)
    for at in range(_MOST + 1):
        perfdb.save_result(latency(f"many-{at}", 10.0, model={"name": f"of-{at:04d}", "version": 1}))
    assert resolved(perfdb, parse("model=of-*").filter) == parse("model=of-*").filter
    assert len(frames.rows(perfdb, "model=of-*")) == _MOST + 1
    assert len(frames.rows(perfdb, "model=of-000*")) == 10


@pytest.mark.new_database
@pytest.mark.parametrize("index", held_indexes())
def test_it_is_read_from_indexes_alone(perfdb: PerfDB, index: str) -> None:
    """No document is fetched, however many there are."""
    add(perfdb, 50, seed=1)
    row = [f"${path}" for path in held_indexes()[index]]
    read = [{"$match": {"verdict": "valid"}}, {"$project": {"_id": 0, "row": row}}]
    told = perfdb.collection("results").database.command(
        "explain", {"aggregate": "results", "pipeline": read, "cursor": {}, "hint": index},
        verbosity="executionStats",
    )  # fmt: skip
    assert "'stage': 'FETCH'" not in str(told) and "IXSCAN" in str(told)


def test_a_server_that_was_away_is_read_again(perfdb: PerfDB) -> None:
    """A closed client loses nothing: the next question reads all that is there."""
    perfdb.save_result(latency("a", 10.0))
    assert len(held(perfdb).rows()) == 1
    perfdb.close()
    perfdb.save_result(latency("b", 10.0))
    assert len(held(perfdb).rows()) == 2


def test_it_ends_with_its_connection(perfdb: PerfDB) -> None:
    """What is held of a PerfDB that nobody uses any more is given back."""
    other = PerfDB.connect(perfdb.uri, Path("/nonexistent"))
    gone = ref(held(other))
    assert not held(other).rows()
    del other
    gc.collect()
    assert gone() is None
