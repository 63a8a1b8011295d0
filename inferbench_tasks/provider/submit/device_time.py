"""How long a login has had devices within the last 24 hours, by what PerfDB holds of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import UnknownKindError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.pipelines.base import pipeline_of

WINDOW_S = 86_400.0
#: From, to; Unix time.
Span = tuple[float, float]
_FIELDS = (
    "job",
    "status",
    "updated_at",
    "ended_at",
    "stages.stage",
    "stages.started_at",
    "stages.ended_at",
    "stages.devices",
)


@dataclass(frozen=True, slots=True)
class UsedUp:
    """A login has had what it may have. ``until_s``: Unix time from which on it may have more."""

    used_s: float
    until_s: float

    def said(self, login: str, limit_min: int, setting: str) -> str:
        """In words."""
        return (
            f"{login} has used {self.used_s / 60:,.0f} minutes of devices within the last 24 hours; at most "
            f"{limit_min:,} are allowed ({setting}). It may go on from "
            f"{datetime.fromtimestamp(self.until_s, UTC):%Y-%m-%d %H:%M} UTC on."
        )


def used_up(db: PerfDB, login: str, limit_s: float, now_s: float | None = None) -> UsedUp | None:
    """Whether a login has had its devices for ``limit_s`` within the last 24 hours, and until when it waits then.

    ``now_s``: Unix time. Raises PerfDBError.
    """
    now = db.now().timestamp() if now_s is None else now_s
    spans = spans_of(db, login, now)
    used_s = sum(end - start for start, end in spans)
    if used_s < limit_s:
        return None
    if not spans:  # nothing is allowed
        return UsedUp(0.0, now + WINDOW_S)
    return UsedUp(used_s, _left_at(spans, used_s - limit_s) + WINDOW_S)


def spans_of(db: PerfDB, login: str, now_s: float) -> list[Span]:
    """When jobs of the login held a device within the last 24 hours; one span for each device of a lease."""
    since = datetime.fromtimestamp(now_s - WINDOW_S, UTC)
    where = {
        "submission.login": login,
        "$or": [{"updated_at": {"$gte": since}}, {"status": "running"}],
    }
    runs: list[dict[str, Any]] = db.retrying(
        lambda: list(db.collection("runs").find(where, dict.fromkeys(_FIELDS, 1))), "finding runs"
    )
    plain = [to_plain(run) for run in runs]
    spans = [span for run in plain for span in leases(run, now_s) for _ in range(devices_of(run))]
    clipped = [(max(start, now_s - WINDOW_S), min(end, now_s)) for start, end in spans]
    return [(start, end) for start, end in clipped if end > start]


def leases(run: Mapping[str, Any], now_s: float) -> list[Span]:
    """When a run (a document of PerfDB) held its device: from each start of the stage that takes it to the end of the
    one that gives it back; to the run's own end, or to now, where that one never ran.

    A lease that was lost ends with what the job last did on it (who takes the device from it ends its stages): until it
    has the next one it waits as every other job does.
    """
    try:
        pipeline = pipeline_of(run.get("job") or {})
    except UnknownKindError:  # of a package that is not installed any more
        return []
    leased = pipeline.leased
    running = run["status"] == "running"
    last = now_s if running else (run.get("ended_at") or run["updated_at"]).timestamp()
    spans: list[Span] = []
    began: float | None = None
    known = 0.0
    for stage in sorted(run.get("stages") or (), key=lambda stage: stage["started_at"]):
        if (entry := pipeline.entry_of(stage["stage"])) is None or not entry.facts.leased:
            continue
        start = stage["started_at"].timestamp()
        if stage["stage"] == leased[0]:
            if began is not None:
                spans.append((began, min(known, start)))
            began, known = start, start
        if began is None:
            continue
        known = max(known, start, stage["ended_at"].timestamp() if stage.get("ended_at") else start)
        if stage["stage"] == leased[-1] and stage.get("ended_at"):
            spans.append((began, stage["ended_at"].timestamp()))
            began = None
    return [*spans, (began, last)] if began is not None else spans


def devices_of(run: Mapping[str, Any]) -> int:
    """How many devices the run's job holds at once, as its document says; one of another host that it held, too."""
    job = run.get("job") or {}
    count = value_at(job, pipeline_of(job).job.devices_field)
    held = max((len(stage.get("devices") or ()) for stage in run.get("stages") or ()), default=0)
    return max(count if isinstance(count, int) else 1, held)


def _left_at(spans: Sequence[Span], seconds: float) -> float:
    """The moment before which so many seconds of the spans lie."""
    moments = sorted({moment for span in spans for moment in span})
    before = 0.0
    for start, end in pairwise(moments):
        count = sum(span[0] <= start and end <= span[1] for span in spans)
        if count and before + count * (end - start) >= seconds:
            return start + (seconds - before) / count
        before += count * (end - start)
    return moments[-1]
