"""How long PerfDB takes for what people ask of 100,000 results.

    python benchmarks/perfdb/questions.py [--results 100000] [--uri mongodb://...]

Fills a database of its own (on the embedded server in a temporary folder, or on the given server),
asks each question ten times, and prints median and maximum in ms against the limit.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from inferbench_tasks.perfdb import embedded, frames
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.queries import parse, parse_sort
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored

LIMIT_MS = 200.0
ROUNDS = 10
DATABASE = "inferbench_benchmark"
MODELS = [f"{family}{size}" for family in ("resnet", "bert", "mobilenet", "lstm") for size in range(25)]
BACKENDS = ["onnxruntime", "triton", "torchscript", "openvino", "tfs_protocol"]


def results(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Results as they are stored, of a realistic size (about 8 KB) and spread."""
    rng, now = random.Random(seed), utc_now()
    for number in range(count):
        p50 = rng.lognormvariate(2, 1)
        run_id = f"run-{number:07d}"
        stats = {
            "mean": p50 * 1.2,
            "p50": p50,
            "p90": p50 * 2,
            "p95": p50 * 2.5,
            "p99": p50 * 4,
            "p999": None,
        }
        yield {
            "run_id": run_id,
            "attempt": 1,
            "job_id": f"job-{number % 5000}",
            "invocation_id": f"invocation-{number // 12}",
            "created_at": now - timedelta(minutes=count - number),
            "submission": {
                "name": f"nightly-{number % 40}",
                "user": f"user-{number % 60}",
                "digest": "ab" * 32,
            },
            "model": {"name": rng.choice(MODELS), "version": rng.randint(1, 9), "framework": "torch"},
            "format": rng.choice(["onnx", "torchscript", "savedmodel"]),
            "backend": {
                "kind": rng.choice(BACKENDS),
                "version": "1.0",
                "launcher": "process",
                "settings": {"threads": rng.choice([1, 2, 4])},
            },
            "device": {"kind": rng.choice(["cpu", "gpu"]), "name": "Example"},
            "load": {
                "arrivals": {"kind": "poisson", "rate_rps": rng.choice([20, 40, 80])},
                "batch_size": rng.choice([1, 2, 4, 8, 16]),
                "duration_s": 60.0,
            },
            "summary": {
                "e2e_latency_ms": {**stats, "ci95": {"p50": [p50 * 0.9, p50 * 1.1]}},
                "send_latency_ms": stats,
                "throughput_rps": rng.uniform(1, 1000),
                "errors": {"timeout": number % 3},
                "timeseries": {
                    name: [rng.random() for _ in range(120)] for name in ("t_s", "rps", "p50", "p99")
                },
            },
            "certificate": {"valid": True, "lateness_us": [rng.random() for _ in range(20)]},
            "verdict": "invalid: lateness" if number % 17 == 0 else "valid",
            "environment": {f"package_{index}": "1.2.3" for index in range(40)},
        }


def questions(db: PerfDB) -> dict[str, Callable[[], list[Any]]]:
    """What is asked; each answer is a list."""

    def found(query: str, sort: str = "", limit: int = 50) -> Callable[[], list[Any]]:
        return lambda: frames.rows(db, query, sort, limit)

    def top(query: str, sort: str) -> Callable[[], list[Any]]:
        return lambda: db.find_results(parse(query).filter, parse_sort(sort), 20)

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
        "one run": lambda: [db.get_result("run-0000077")],
        "history of a job": lambda: db.find_results({"job_id": "job-77"}, limit=20),
        "an invocation's runs": lambda: db.find_results({"invocation_id": "invocation-100"}),
        "a setting of the backend": found("settings.threads=2"),
        "no match (settings.threads=3)": found("settings.threads=3"),
        "no match (network=4g backend=triton)": found("network=4g backend=triton"),
        "sorted by p50": found("backend=triton", "p50"),
    }


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--uri", help="another server than the embedded one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(options.uri, Path(folder), options.results)
        finally:
            embedded.stop(Path(folder))


def measure(uri: str | None, folder: Path, count: int) -> None:
    """All questions against one server."""
    db = PerfDB.connect(with_database(uri or embedded.ensure(folder), DATABASE), folder)
    database = db._session.database()
    try:
        database["results"].delete_many({})
        started, batch = time.perf_counter(), []
        for number, document in enumerate(results(count), 1):
            batch.append(to_stored(document))
            if len(batch) == 1000 or number == count:
                database["results"].insert_many(batch)
                batch.clear()
        print("server:", " ".join(f"{name}={value}" for name, value in db.server().items()))
        size = database.command("collStats", "results")
        print(
            f"{count} results in {time.perf_counter() - started:.0f} s; {size['size'] / count / 1e3:.1f} KB each, "
            f"{size['storageSize'] / 1e6:.0f} MB on disk, indexes {size['totalIndexSize'] / 1e6:.0f} MB\n"
        )
        print(f"{'question':<44}{'answers':>8}{'median ms':>11}{'max ms':>9}   limit {LIMIT_MS:.0f} ms")
        for name, ask in questions(db).items():
            times, answers = [], []
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                answers = ask()
                times.append((time.perf_counter() - begun) * 1000)
            verdict = "ok" if median(times) <= LIMIT_MS else "TOO SLOW"
            print(f"{name:<44}{len(answers):>8}{median(times):>11.1f}{max(times):>9.1f}   {verdict}")
    finally:
        database.client.drop_database(DATABASE)
        db.close()


if __name__ == "__main__":
    main()
