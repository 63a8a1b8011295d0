"""Part of ``analyze``: the spans of traced runs go to the operator's collector, where there is one.

Where they go is a setting of who runs the system and none of a submission: what logs in there is this process's, and
must not be sent to an address that somebody else chose. The device is free by then, and the runs stand as they were
measured whatever the collector does: their results say what it has.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inferbench_tasks.errors import CancelledError, InferBenchError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.tracing.push.base import GIVE_UP_AFTER_S

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.documents import ResultDocument
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.tracing.push.send import Pushed

log = logging.getLogger(__name__)
#: An address as ``inferbench trace export --to`` takes it.
COLLECTOR = "INFERBENCH_TRACE_COLLECTOR"
#: What of a trace's spans can have become, see ``push.send.Pushed``.
_COUNTS = ("accepted", "rejected", "unknown", "not_sent", "repeated")


def send_traces(
    db: PerfDB, run_ids: Sequence[str], ctx: Context, give_up_after_s: float = GIVE_UP_AFTER_S
) -> None:
    """Send each traced run's spans once, and write into its result what became of them. CancelledError.

    A collector that is away is waited for once, not for each run.
    """
    address = os.environ.get(COLLECTOR)
    if not address:
        return
    away: dict[str, Any] | None = None
    for run_id in run_ids:
        # Earlier attempts have spans of the same ids.
        found = db.find_results({"run_id": run_id}, sort=[("attempt", -1)], limit=1)
        trace = found[0].extensions.get("trace", {}) if found else {}
        if "file" not in trace or "sent" in trace:  # not traced, or sent by the try before this one
            continue
        result = found[0]
        if away is not None:
            spans = trace["spans"]
            sent = {**away, **dict.fromkeys(_COUNTS, 0), "spans": spans, "not_sent": spans}
        else:
            sent = _sent(db, result, address, ctx, give_up_after_s)
            away = sent if "to" in sent and sent["spans"] > sent["accepted"] + sent["rejected"] else None
        _keep(db, result, sent)


def _keep(db: PerfDB, result: ResultDocument, sent: dict[str, Any]) -> None:
    key = {"run_id": result.run_id, "attempt": result.attempt}
    change = {"$set": {"extensions.trace.sent": sent}}
    db.retrying(
        lambda: db.collection("results").update_one(key, change), "keeping what a collector has of a trace"
    )


def _sent(
    db: PerfDB, result: ResultDocument, address: str, ctx: Context, give_up_after_s: float
) -> dict[str, Any]:
    """What became of a run's spans; a failure is part of it."""
    from inferbench_tasks.analysis.report.runs import stored_table
    from inferbench_tasks.tracing.push.send import send_table
    from inferbench_tasks.tracing.push.target import target_of
    from inferbench_tasks.tracing.queries import about_run

    def telling(done: int, total: int, text: str) -> None:
        if ctx.cancelled():
            raise CancelledError("Cancelled while spans were sent to a collector")
        ctx.progress(done, total, f"sending spans to {target.address}{f': {text}' if text else ''}")

    try:
        target = target_of(address, COLLECTOR)
        table = stored_table(db, result.extensions["trace"]["file"])
        pushed = send_table(
            table, about_run(result), target, give_up_after_s=give_up_after_s, telling=telling
        )
    except CancelledError:
        raise
    except (InferBenchError, OSError) as error:
        log.warning("no spans sent run=%s", result.run_id, exc_info=True)
        spans = result.extensions["trace"]["spans"]
        counts = dict.fromkeys(_COUNTS, 0) | {"not_sent": spans}
        return {"spans": spans, **counts, "problem": str(error)}
    return _document(pushed)


def _document(pushed: Pushed) -> dict[str, Any]:
    return {
        "to": pushed.address,
        "spans": pushed.spans,
        **{name: getattr(pushed, name) for name in _COUNTS},
        **({} if pushed.complete else {"problem": "; ".join(pushed.said())}),
    }
