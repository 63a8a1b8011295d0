"""The indexes: within MongoDB's limits, and with what is held of every result."""

from __future__ import annotations

from inferbench_tasks.analysis.recommend.candidates import OBJECTIVES, path_of
from inferbench_tasks.perfdb.indexes import HELD, HELD_INDEXES, INDEXES


def test_no_index_has_more_fields_than_mongodb_allows() -> None:
    """32 in one index, 64 indexes of one collection; every name once."""
    for models in INDEXES.values():
        documents = [model.document for model in models]
        assert max(len(document["key"]) for document in documents) <= 32
        assert len(documents) == len({document["name"] for document in documents}) <= 64


def test_every_objective_is_held() -> None:
    """No leaderboard or recommendation by a known figure reads documents."""
    assert {path_of(name) for name in OBJECTIVES} <= set(HELD)


def test_what_is_held_is_the_first_index_and_then_what_the_second_adds() -> None:
    """In the order in which ``held`` puts both together: the second begins with run and attempt."""
    first, second = HELD_INDEXES.values()
    assert second[:2] == ("run_id", "attempt")
    assert (*first, *second[2:]) == HELD
