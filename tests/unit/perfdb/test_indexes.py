"""The indexes: within MongoDB's limits, and with what is held of every result."""

from __future__ import annotations

import pytest

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.indexes import (
    _MOST_BROUGHT,
    held_indexes,
    held_paths,
    index_of_newest,
    indexes,
)
from inferbench_tasks.perfdb.queries import parse


def test_no_index_has_more_fields_than_mongodb_allows() -> None:
    """32 in one index, 64 indexes of one collection; every name once."""
    for models in indexes().values():
        documents = [model.document for model in models]
        assert max(len(document["key"]) for document in documents) <= 32
        assert len(documents) == len({document["name"] for document in documents}) <= 64


def test_metrics_that_packages_bring_have_room() -> None:
    """As many as get indexes, two each, beside MongoDB's own and five that earlier versions made under other names."""
    ours = len(indexes()["results"]) - 2 * min(_MOST_BROUGHT, len(FIGURES.brought()))
    assert ours + 1 + 5 + 2 * _MOST_BROUGHT <= 64


def test_every_objective_is_held() -> None:
    """No leaderboard or recommendation by a known figure reads documents; what nobody can rank by is not held."""
    held = {figure.field_path for figure in FIGURES.offered()}
    assert held <= set(held_paths())
    assert not {f.field_path for f in FIGURES.values() if f.name.startswith("quiet_")} & set(held_paths())


def test_what_is_held_is_the_first_index_and_then_what_the_others_add() -> None:
    """In the order in which ``held`` puts them together: each further one begins with run and attempt."""
    first, *others = held_indexes().values()
    assert all(other[:2] == ("run_id", "attempt") for other in others)
    assert (*first, *(path for other in others for path in other[2:])) == held_paths()


def test_the_first_index_is_the_one_that_older_databases_have() -> None:
    """MongoDB changes no index that exists: another list under this name would be refused."""
    assert held_indexes()["held"] == (
        "created_at", "run_id", "attempt", "submission.digest", "submission.name", "submission.user", "model.name",
        "model.task", "model.dataset", "format", "backend.kind", "device.kind", "device.name", "load.batch_size",
        "load.arrivals.rate_rps",
        *(f"summary.e2e_latency_ms.{name}" for name in ("mean", "p50", "p90", "p95", "p99", "p999")),
        "summary.throughput_rps", "summary.goodput_rps", "summary.accuracy_ratio",
        "summary.energy.joule_per_request", "summary.co2_g_per_1k", "summary.cost_usd_per_1k",
        "summary.throughput_samples_per_s", "summary.error_ratio", "summary.resources.server.cpu_cores.mean",
        "summary.resources.server.rss_bytes.max",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("verdict=invalid", "newest"),
        ("verdict=disturbed device=gpu since=7d batch>=4", "newest"),
        ("", None),
        ("device=gpu", None),  # one index has it: MongoDB need not choose
        ("verdict=invalid model=resnet*", None),  # a list of its own is shorter
        ("verdict=valid p99_ms<=20", None),  # a bound that few may keep
        ("verdict=invalid run=run-7", None),
    ],
)
def test_a_list_by_verdict_goes_through_the_newest(query: str, index: str | None) -> None:
    """Where the verdict is asked for, and nothing that leads to few results by an index of its own."""
    assert index_of_newest(parse(query).filter) == index
