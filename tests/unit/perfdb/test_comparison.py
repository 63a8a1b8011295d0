"""Results side by side as people read them."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.perfdb.comparison import compare, shown
from tests.unit.perfdb.builders import result


def of(run_id: str, mib: float, failed: float, p99: float, batch: int) -> Any:
    """A run with so much memory, failures, latency and samples in a request."""
    summary = {
        "e2e_latency_ms": {"p99": p99},
        "error_ratio": failed,
        "resources": {"server": {"rss_bytes": {"max": mib * 2**20}}},
    }
    load = {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": batch, "duration_s": 10.0}
    return result(run_id, summary=summary, load=load)


def test_figures_have_the_units_of_all_lists() -> None:
    """96 MiB are stored as 100,663,296 bytes, 2% as 0.02; ratios, settings and the stored rows stay what they are."""
    stored = compare([of("a", 96.0, 0.02, 20.0, 4), of("b", 48.0, 0.01, 30.0, 8)])
    rows = {row["field"]: row for row in shown(stored)}
    assert rows["rss_bytes"] == {"field": "rss_bytes", "unit": "MiB", "a": 96.0, "b": 48.0, "b ratio": 0.5}
    assert rows["error_ratio"] == {"field": "error_ratio", "unit": "%", "a": 2.0, "b": 1.0, "b ratio": 0.5}
    assert rows["p99_ms"] == {"field": "p99_ms", "unit": "ms", "a": 20.0, "b": 30.0, "b ratio": 1.5}
    assert rows["batch"] == {"field": "batch", "unit": None, "a": 4, "b": 8}
    bytes_stored = next(row for row in stored if row["field"] == "rss_bytes")
    assert bytes_stored == {"field": "rss_bytes", "a": 96.0 * 2**20, "b": 48.0 * 2**20, "b ratio": 0.5}
    assert [*next(iter(rows.values()))][:2] == ["field", "unit"]


def test_what_a_run_lacks_stays_so() -> None:
    """No number becomes none in another unit."""
    rows = {row["field"]: row for row in shown(compare([of("a", 96.0, 0.02, 20.0, 4), result("b")]))}
    assert rows["rss_bytes"]["b"] is None and rows["rss_bytes"]["b ratio"] is None
