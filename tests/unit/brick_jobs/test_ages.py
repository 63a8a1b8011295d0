"""How old the times of a prediction are, by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from inferbench_tasks.brick_jobs.ages import OLD_DAYS, ages
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import Result

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def measured(days: float) -> Result:
    setting = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
    return Result(
        identity="a", key="a", operators=("Op",), setting=setting, session="s", method=Method(),
        rounds_ns={"warm": (1.0, 1.0)}, raw_ns={}, measured_at=NOW - timedelta(days=days),
    )  # fmt: skip


def test_the_ends_and_what_is_old_are_told() -> None:
    """Of 1, 30 and 31 days the last is old; without times both ends are none, and nothing is old."""
    found = ages([measured(1), measured(30), measured(31)], NOW)
    assert found == {
        "oldest_at": NOW - timedelta(days=31), "newest_at": NOW - timedelta(days=1), "old": 1,
    }  # fmt: skip
    assert ages([], NOW) == {"oldest_at": None, "newest_at": None, "old": 0}


def test_old_is_what_submissions_measure_again() -> None:
    """One bound: what is said to be old is what would be timed anew, unless it is said otherwise."""
    assert MeasureSpec().max_age_days == OLD_DAYS
