"""How old the times are that a prediction follows from: a machine changes, and its runtime and system with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferbench_tasks.bricks.results import Result

#: Older times are said to be old; as old a night measures again, and a submission unless it says otherwise.
OLD_DAYS = 30


def oldest_of_now(now: datetime) -> datetime:
    """What was measured before is old."""
    return now - timedelta(days=OLD_DAYS)


def ages(times: Collection[Result], now: datetime) -> dict[str, Any]:
    """``oldest_at``, ``newest_at``: when these were measured, null without any; ``old``: so many are old."""
    moments = [one.measured_at for one in times]
    return {
        "oldest_at": min(moments, default=None),
        "newest_at": max(moments, default=None),
        "old": sum(at < oldest_of_now(now) for at in moments),
    }


def age_in_words(row: Mapping[str, Any]) -> str | None:
    """A sentence where a prediction is of old times. ``row``: as ``answer`` gives it."""
    if not row.get("old"):
        return None
    return (
        f"{row['old']} of its bricks' times are older than {OLD_DAYS} days, the oldest of "
        f"{row['oldest_at']:%Y-%m-%d}: measured again they may be others."
    )
