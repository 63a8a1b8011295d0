"""How long PerfDB takes for what people ask of 100,000 results.

    python -m benchmarks.perfdb.questions [--results 100000] [--uri mongodb://...]

Fills a database of its own (on the embedded server in a temporary folder, or on the given server), asks each question
ten times, and prints median and maximum in ms against the limit; exit code 1 if one is over it.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.perfdb.filled import filled, measure
from inferbench_tasks.perfdb import frames
from inferbench_tasks.perfdb.queries import parse, parse_sort
from inferbench_tasks.perfdb.store import PerfDB

LIMIT_MS = 200.0


def questions(db: PerfDB) -> dict[str, Callable[[], int]]:
    """What is asked; each returns how many answers there were."""

    def found(query: str, sort: str = "", limit: int = 50) -> Callable[[], int]:
        return lambda: len(frames.rows(db, query, sort, limit))

    def top(query: str, sort: str) -> Callable[[], int]:
        return lambda: len(db.find_results(parse(query).filter, parse_sort(sort), 20))

    return {
        "list, the newest 50": found(""),
        "leaderboard of a model by p99": top("verdict=valid model=resnet7", "p99"),
        "leaderboard of a model by throughput": top("verdict=valid model=resnet7", "-throughput"),
        "leaderboard of all by p99": top("verdict=valid", "p99"),
        "leaderboard of a model and backend": top("verdict=valid model=resnet7 backend=triton", "p99"),
        "leaderboard of a backend by throughput": top("verdict=valid backend=triton", "-throughput"),
        "model=resnet1* since=7d": found("model=resnet1* since=7d"),
        "user and batch": found("user=user-7 batch>=8"),
        "backend, format and device": found("backend=triton format=onnx device=gpu"),
        "verdict=invalid": found("verdict=invalid"),
        "a rare condition (p99<0.6)": found("p99<0.6"),
        "no match (model=*zzz)": found("model=*zzz"),
        "no match (throughput>5000)": found("throughput>5000"),
        "one run": lambda: len([db.get_result("run-0000077")]),
        "history of a job": lambda: len(db.find_results({"job_id": "job-77"}, limit=20)),
        "an invocation's runs": lambda: len(db.find_results({"invocation_id": "invocation-100"})),
        "a setting of the backend": found("settings.threads=2"),
        "no match (settings.threads=3)": found("settings.threads=3"),
        "no match (network=4g backend=triton)": found("network=4g backend=triton"),
        "sorted by p50": found("backend=triton", "p50"),
    }


if __name__ == "__main__":
    with filled(__doc__) as (db, folder):
        measure(questions(db), LIMIT_MS, folder, "answers")
