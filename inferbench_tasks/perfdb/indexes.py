"""The indexes: what a leaderboard, a list, or a search over 100,000 results goes through.

``benchmarks/perfdb`` measures each kind of question. MongoDB makes an index once; asking again is cheap.
"""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from inferbench_tasks.perfdb.fields import FIELDS

_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999")
LATEST = ("created_at", DESCENDING)
#: Any figure may be sorted by.
FIGURES = [f.path for f in FIELDS if f.path.startswith("summary.")]
#: Have indexes of their own, or are seldom asked for.
_ELSEWHERE = {*FIGURES, "run_id", "attempt", "job_id", "invocation_id", "created_at", "backend.version"}
_SETTINGS = [f.path for f in FIELDS if f.path not in _ELSEWHERE]
#: What ``held`` reads of every valid result, by the index that has it. MongoDB allows 32 fields in one, the verdict
#: among them, and the first has 32; one that is changed needs a new name, for it is there already in older databases.
HELD_INDEXES: dict[str, tuple[str, ...]] = {"held": (
    "created_at", "run_id", "attempt", "submission.digest", "submission.name", "submission.user", "model.name",
    "model.task", "model.dataset", "format", "backend.kind", "device.kind", "device.name", "load.batch_size",
    "load.arrivals.rate_rps", *(f"summary.e2e_latency_ms.{name}" for name in _LATENCIES),
    "summary.throughput_rps", "summary.goodput_rps", "summary.accuracy_ratio", "summary.energy.joule_per_request",
    "summary.co2_g_per_1k", "summary.cost_usd_per_1k", "summary.throughput_samples_per_s", "summary.error_ratio",
    "summary.resources.server.cpu_cores.mean", "summary.resources.server.rss_bytes.max",
), "held_more": (
    "run_id", "attempt", "device.cores", "summary.energy.joule_per_sample", "summary.co2_g_per_1k_samples",
    "summary.cost_usd_per_1k_samples",
)}  # fmt: skip
HELD = tuple(dict.fromkeys(path for paths in HELD_INDEXES.values() for path in paths))


def _newest(*leading: str) -> list[tuple[str, int]]:
    """Keys for lists, newest first, of equal leading fields.

    All settings follow, so that the other conditions are decided on the index's keys: a rare one does
    not read every document.
    """
    rest = [(path, ASCENDING) for path in _SETTINGS if path not in leading]
    return [*((path, ASCENDING) for path in leading), LATEST, *rest]


INDEXES: dict[str, list[IndexModel]] = {
    "results": [
        # Written once.
        IndexModel([("run_id", ASCENDING), ("attempt", DESCENDING)], unique=True, name="run"),
        IndexModel(_newest(), name="newest"),
        IndexModel(_newest("model.name"), name="newest_of_model"),
        IndexModel(_newest("backend.kind"), name="newest_of_backend"),
        *(IndexModel([(path, ASCENDING)], name=path) for path in (*FIGURES, "load.batch_size")),
        *(
            IndexModel([("verdict", ASCENDING), *((path, ASCENDING) for path in paths)], name=name)
            for name, paths in HELD_INDEXES.items()
        ),
        # Lists of valid results, of a model or of all, the best first.
        IndexModel(
            [("verdict", 1), ("model.name", 1), ("summary.e2e_latency_ms.p99", 1)], name="board_latency"
        ),
        IndexModel(
            [("verdict", 1), ("model.name", 1), ("summary.throughput_rps", -1)], name="board_throughput"
        ),
        IndexModel([("verdict", 1), ("summary.e2e_latency_ms.p99", 1)], name="best_latency"),
        IndexModel([("verdict", 1), ("summary.throughput_rps", -1)], name="best_throughput"),
        IndexModel([("backend.settings.$**", 1)], name="settings"),
        IndexModel([("submission.user", 1), LATEST], name="user"),
        IndexModel([("submission.name", 1), LATEST], name="submission"),
        # The history of one job: regression runs.
        IndexModel([("job_id", 1), LATEST], name="job"),
        IndexModel([("invocation_id", 1), ("run_id", 1)], name="invocation"),
    ],
    "runs": [
        IndexModel([("started_at", DESCENDING)], name="started"),
        IndexModel([("invocation_id", 1), ("_id", 1)], name="invocation"),
        IndexModel([("status", 1), ("started_at", DESCENDING)], name="status"),
        IndexModel([("job_id", 1), ("started_at", DESCENDING)], name="job"),
    ],
    "models": [
        IndexModel([("name", 1), ("version", DESCENDING)], unique=True, name="version"),
        IndexModel([("digest", 1)], name="digest"),
        IndexModel([LATEST], name="created"),
    ],
    "invocations": [
        IndexModel([("started_at", DESCENDING)], name="started"),
        IndexModel([("submission.name", 1), ("started_at", DESCENDING)], name="submission"),
    ],
}


def ensure(database: Database[dict[str, Any]]) -> None:
    """Make the indexes that are missing."""
    for collection, models in INDEXES.items():
        database[collection].create_indexes(models)
