"""Are a report's figures those of the raw records? Seven of them, worked out again from each record, one by one.

    python scripts/check_by_hand.py RUN [RUN ...]

Plain Python over the rows, with nothing of InferBench but the connection to PerfDB. Prints each figure as the result
has it and as the records give it; exit code 1 if any two differ.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.dotted import value_at
from inferbench_tasks.perfdb.store import PerfDB

#: Requests below which a percentile is not stated (MLPerf LoadGen's early stopping at 99% confidence).
FLOORS = {0.50: 11, 0.95: 130, 0.99: 662}


def by_hand(rows: list[dict[str, Any]], start_ns: int, end_ns: int) -> dict[str, float | None]:
    """The figures of the window from ``start_ns`` to ``end_ns``, from its records."""
    mine = [row for row in rows if row["phase"] == "measure" and start_ns <= row["intended_ns"] < end_ns]
    good = [row for row in mine if row["status"] == "ok"]
    latencies = sorted((row["done_ns"] - row["intended_ns"]) / 1e6 for row in good)
    arrived = [row for row in rows if row["status"] == "ok" and start_ns < row["done_ns"] <= end_ns]
    seconds = (end_ns - start_ns) / 1e9

    def percentile(share: float) -> float | None:
        if len(latencies) < FLOORS[share]:
            return None
        rank = math.ceil(round(share * len(latencies), 9))
        return float(latencies[max(rank, 1) - 1])

    return {
        "e2e_latency_ms.mean": math.fsum(latencies) / len(latencies) if latencies else None,
        "e2e_latency_ms.p50": percentile(0.50),
        "e2e_latency_ms.p95": percentile(0.95),
        "e2e_latency_ms.p99": percentile(0.99),
        "throughput_rps": len(arrived) / seconds,
        "throughput_samples_per_s": sum(row["batch_size"] for row in arrived) / seconds,
        "error_ratio": (len(mine) - len(good)) / len(mine) if mine else None,
    }


def compare(db: PerfDB, run_id: str) -> list[tuple[str, float | None, float | None, bool]]:
    """Each figure: its name, as the result has it, by hand, and whether they agree."""
    result = db.get_result(run_id)
    window = result.extensions["measured_window"]
    found = by_hand(db.samples(run_id).to_pylist(), window["start_ns"], window["end_ns"])
    summary = result.summary.model_dump()
    rows = []
    for path, mine in found.items():
        stated = value_at(summary, path)
        same = stated is mine or (
            stated is not None
            and mine is not None
            and math.isclose(stated, mine, rel_tol=1e-9, abs_tol=1e-12)
        )
        rows.append((path, stated, mine, same))
    return rows


def main() -> int:
    """Check the runs that are named."""
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    wrong = 0
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        for run_id in sys.argv[1:]:
            print(run_id)
            for path, stated, mine, same in compare(db, run_id):
                wrong += not same
                print(f"  {path:<26}{_text(stated):>14}{_text(mine):>14}  {'same' if same else 'DIFFERS'}")
    return int(wrong > 0)


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f}"


if __name__ == "__main__":
    sys.exit(main())
