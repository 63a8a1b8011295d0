"""What a worker and its leader must have in common."""

from __future__ import annotations

from inferbench_tasks.cluster.versions import Versions, own, unfit

LEADER = Versions(inferbench="1.2.0", python="3.12", protocol=3)


def test_equal_versions_fit() -> None:
    """Nothing is said of them; one's own fit oneself."""
    assert LEADER.unlike(LEADER) == "" and unfit(own(), own()) == ""


def test_each_difference_is_told_with_both_numbers() -> None:
    """All of them at once, the worker's number first."""
    worker = Versions(inferbench="1.1.0", python="3.11", protocol=2)
    assert worker.unlike(LEADER) == (
        "InferBench 1.1.0 of the worker, 1.2.0 of the leader; Python 3.11 of the worker, 3.12 of the leader; "
        "protocol 2 of the worker, 3 of the leader"
    )


def test_one_that_did_not_tell_does_not_fit() -> None:
    """It is of a version that knows of no versions."""
    assert "the leader's is 1.2.0" in unfit(None, LEADER)
