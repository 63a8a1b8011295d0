"""Part of ``collect``: the spans of a trace go into PerfDB, unless that would take the room of what was measured."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.errors import PerfDBError, StorageError
from inferbench_tasks.stages.trace import SPANS_FILE

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.stages.trace import Output as Traced

log = logging.getLogger(__name__)


def stored_spans(
    db: PerfDB, traced: Traced, run_id: str, attempt: int, *, samples: Path | None, needed: bool
) -> dict[str, Any]:
    """What the result says of the trace: with where its spans are (``file``), or why they are nowhere (``unstored``).

    ``samples``: what is stored behind them and must have room, too. ``needed``: the job asked for nothing else, so that
    there is no result without them: StorageError, PerfDBError.
    """
    if traced.spans_path is None:
        return traced.document
    spans = Path(traced.spans_path)
    try:
        if samples is not None:
            db.require_room(spans.stat().st_size + samples.stat().st_size)
        stored = db.files.put(spans, SPANS_FILE, run_id=run_id, attempt=attempt)
    except (StorageError, PerfDBError) as error:
        if needed:
            raise
        log.warning("the spans are not stored run_id=%s: %s", run_id, error)
        return {**traced.document, "unstored": str(error)}
    return {**traced.document, "file": stored.model_dump()}
