"""What is said of a predicted latency, by what tells how far it may be off."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from inferbench_tasks.cli.bricks_latency_words import in_words, short

ROW: dict[str, Any] = {
    "model": "m", "device": "d", "runtime": "r", "predicted_ms": 10.0, "predicted_interval_ms": [9.0, 11.0],
    "precision": "fp32", "missing": 0, "unique": 3, "coverage_ratio": 1.0, "state": "warm", "calibrated_by": None,
    "judged_by": 0,
}  # fmt: skip
CALIBRATED = {
    "calibrated_by": ["a", "b", "c"], "judged_by": 12, "factor": 1.1, "calibrated_ms": 10.0,
    "calibrated_by_class_ms": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "not calibrated: the interval is of the rounds alone, and leaves out what cutting changes"),
        ({"judged_by": 7}, "of the rounds and of how far the sums of 7 other models were off"),
        (
            CALIBRATED,
            "calibrated by a, b, c (one factor 1.100: 10 ms); the interval is of the rounds and of how far 12",
        ),
        (
            {"state": "streamed"},
            "streamed times are added up, which were nearer for other models of its size",
        ),
    ],
)
def test_it_is_said_what_the_interval_is_of(row: dict[str, Any], says: str) -> None:
    """And in which state the times are that are added up, where it is not the usual one."""
    said = in_words(ROW | row)
    assert says in said and ("streamed" in said) == (row.get("state") == "streamed")


def test_shares_beside_a_critical_path_are_said_to_be_of_what_they_are() -> None:
    """Casts are a quarter of the sum of all bricks, whatever the longest way is; what is estimated is at most so much
    of it. Of a sum both are of the predicted time itself."""
    row = ROW | {
        "precision": "fp16", "missing": 1, "coverage_ratio": 0.9, "estimated_error_ratio": 0.2,
        "by_operators": [{"operators": "Cast", "share_ratio": 0.25}],
    }  # fmt: skip
    said = in_words(row | {"constructor": "parallel"})
    assert "25.0% of the sum of all bricks are casts" in said and "at most 10.0% of it are estimated" in said
    said = in_words(row | {"constructor": "sequential"})
    assert "25.0% of it are casts" in said and "at most" not in said


def test_other_hosts_are_named_with_what_is_theirs() -> None:
    """What was measured, interpolated and estimated, each of its hosts; nothing is said where all are of this one."""
    origins = [
        {"how": "measured", "times": 2, "hosts": ["host-a"]},
        {"how": "estimated", "times": 1, "hosts": ["host-a", "host-b"]},
    ]
    said = in_words(ROW | {"timed_on": ["host-a", "host-b"], "origins": origins})
    assert (
        "of host-a and host-b (2 measured on host-a, 1 estimated from times of host-a and host-b): hosts"
        in said
    )
    assert "host-a" not in in_words(ROW | {"origins": origins[:1]})


def test_what_was_not_timed_is_neither_quiet_nor_not() -> None:
    """Of stored times nobody says whether this machine is quiet; of those that were timed now it is said."""
    assert short(ROW | {"measured_now": 0, "disturbed": None})["quiet"] == "-"
    assert short(ROW | {"measured_now": 2, "disturbed": None})["quiet"] == "yes"
    assert short(ROW | {"measured_now": 2, "disturbed": "busy"})["quiet"] == "no"


def test_old_times_are_said_to_be_old() -> None:
    """How many of them, and since when; of fresh ones there is no word."""
    of = {"oldest_at": datetime(2026, 10, 1, tzinfo=UTC), "newest_at": datetime(2026, 12, 1, tzinfo=UTC)}
    said = in_words(ROW | of | {"old": 2})
    assert "2 of its bricks' times are older than 30 days, the oldest of 2026-10-01" in said
    assert "older" not in in_words(ROW | of | {"old": 0})
