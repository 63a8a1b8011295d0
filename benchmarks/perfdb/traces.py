"""How long a list of 1,000 traces takes, half of them of runs among 100,000 results, half imported.

    python -m benchmarks.perfdb.traces [--results 100000] [--uri mongodb://...]

Prints median and maximum in ms against the limit; exit code 1 if one is over it.
"""

from __future__ import annotations

from datetime import timedelta

from benchmarks.perfdb.filled import filled, measure
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.traces import listed
from inferbench_tasks.provider.ui.trace_pages import list_traces
from inferbench_tasks.tracing.stored import COLLECTION, rows, traced_runs

LIMIT_MS = 500.0
EACH = 500


def add_traces(db: PerfDB) -> None:
    """Traces of the oldest runs, with 100 layers each, and documents of imported ones."""
    layers = [
        {"order": at, "name": f"layer{at}", "type": "Conv", "ms": 0.5, "output_bytes": 4} for at in range(100)
    ]
    file = {"id": "0" * 24, "name": "spans.parquet", "sha256": "0" * 64, "bytes": 100_000}
    trace = {
        "levels": ["application", "model", "framework", "layer"], "spans": 10_000, "file": file,
        "layers": {"framework_ms": 50.0, "explained_ratio": 0.98, "layers": layers},
    }  # fmt: skip
    oldest = [f"run-{number:07d}" for number in range(EACH)]
    db.collection("results").update_many({"run_id": {"$in": oldest}}, {"$set": {"extensions.trace": trace}})
    names = [{"name": f"op{at}", "spans": 500, "total_ms": 1.0, "median_ms": 0.1} for at in range(20)]
    now = utc_now()
    db.collection(COLLECTION).delete_many({})
    db.collection(COLLECTION).insert_many(
        {
            "_id": f"imported-{number:016x}", "origin": "imported", "name": "shop.json", "note": "",
            "source": {"form": "OTLP JSON"}, "created_at": now - timedelta(minutes=number), "traces": 100,
            "spans": 10_000, "levels": {"foreign": 10_000}, "names": names, "findings": [], "bytes": 100_000,
        }
        for number in range(EACH)
    )  # fmt: skip


if __name__ == "__main__":
    with filled(__doc__) as (db, folder):
        add_traces(db)
        asked = {
            "1,000 traces of both kinds": lambda: len(rows(db, 2 * EACH)),
            "1,000 traces of all origins": lambda: len(listed(db, 2 * EACH)),
            "their page": lambda: len(list_traces(db, "", 2 * EACH, 0).body),
            "the newest 50 traced runs": lambda: len(traced_runs(db, 50)),
        }
        measure(asked, LIMIT_MS, folder, "traces")
