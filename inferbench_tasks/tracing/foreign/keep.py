"""A trace of another tool into PerfDB: its spans as ours are stored, and a document that says what they are."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pymongo.errors import DuplicateKeyError

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored
from inferbench_tasks.tracing.foreign.base import Foreign
from inferbench_tasks.tracing.foreign.file import TraceFile
from inferbench_tasks.tracing.foreign.tree import arranged
from inferbench_tasks.tracing.spans import Span, write
from inferbench_tasks.tracing.stored import COLLECTION, NO_VERDICT, PREFIX

#: So many names of spans and services a document has.
_NAMES = 20


def keep(db: PerfDB, file: TraceFile, foreign: Foreign, name: str = "") -> tuple[dict[str, Any], bool]:
    """Store a file's spans; its document, and whether it is new.

    The document is written behind the spans: a process that is killed leaves none. InputError for what is wrong with
    the file.
    """
    trace_id = PREFIX + file.sha256[:16]
    if (known := _known(db, trace_id)) is not None:
        return known, False
    summary = _Summary()
    with tempfile.TemporaryDirectory(prefix="inferbench-trace-") as folder:
        path = Path(folder) / "spans.parquet"
        write(summary.seen(arranged(foreign.spans, foreign.findings)), path)
        if not summary.spans:
            raise InputError(f"{file.name} has no span that has a beginning and an end")
        stored = db.files.put(path, "spans.parquet", imported_trace=trace_id)
    document = {
        "_id": trace_id,
        "origin": "imported",
        "note": NO_VERDICT,
        "name": name or file.name,
        "source": {
            "file": file.name,
            "form": foreign.form,
            "packed": file.packed,
            "sha256": file.sha256,
            "bytes": file.size_bytes,
        },
        "created_at": db.now(),
        "clock": foreign.clock,
        "services": sorted(each[:200] for each in foreign.services)[:_NAMES],
        **summary.as_dict(),
        "findings": foreign.findings.as_rows(),
        "file": stored.model_dump(),
        "bytes": stored.bytes,
    }
    values = to_stored(document)

    def insert() -> bool:
        try:
            db.collection(COLLECTION).insert_one(dict(values))
        except DuplicateKeyError:  # of another process, or of our own first try whose answer was lost
            return False
        return True

    if not db.retrying(insert, "writing the imported trace"):
        other = _known(db, trace_id)
        if other is not None and other["file"]["id"] != stored.id:
            db.files.delete(stored)
            return other, False
    return dict(to_plain(values)), True


def _known(db: PerfDB, trace_id: str) -> dict[str, Any] | None:
    found = db.retrying(
        lambda: db.collection(COLLECTION).find_one({"_id": trace_id}), "finding an imported trace"
    )
    return None if found is None else dict(to_plain(found))


class _Summary:
    """What a document says of its spans, gathered while they pass."""

    def __init__(self) -> None:
        self.spans = 0
        self._traces: set[str] = set()
        self._roots = 0
        self._levels: dict[str, int] = defaultdict(int)
        self._durations_ns: dict[str, list[int]] = defaultdict(list)
        self._start_ns: int | None = None
        self._end_ns = 0

    def seen(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The same spans."""
        for span in spans:
            self.spans += 1
            self._traces.add(span.trace_id)
            self._roots += span.parent < 0
            self._levels[span.level] += 1
            self._durations_ns[span.name].append(span.duration_ns)
            begun = self._start_ns
            self._start_ns = span.start_ns if begun is None else min(begun, span.start_ns)
            self._end_ns = max(self._end_ns, span.end_ns)
            yield span

    def as_dict(self) -> dict[str, Any]:
        """``names``: those with the most time in all, spans within others included."""
        longest = sorted(self._durations_ns.items(), key=lambda each: -sum(each[1]))[:_NAMES]
        return {
            "traces": len(self._traces),
            "spans": self.spans,
            "roots": self._roots,
            "levels": dict(self._levels),
            "started_ns": self._start_ns,
            "lasted_ms": (self._end_ns - (self._start_ns or 0)) / 1e6,
            "names": [
                {
                    "name": name[:200],
                    "spans": len(durations),
                    "total_ms": sum(durations) / 1e6,
                    "median_ms": median(durations) / 1e6,
                }
                for name, durations in longest
            ],
        }
