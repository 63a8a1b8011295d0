"""A PerfDB with as many results as wanted, and how long its answers take: what the benchmarks here share."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.perfdb.answered import NotAnswered, failed
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored

ROUNDS = 10
DATABASE = "inferbench_benchmark"
MODELS = [f"{family}{size}" for family in ("resnet", "bert", "mobilenet", "lstm") for size in range(25)]
#: Columns of the course of a load, second by second.
_COUNTED, _LATENCIES = ("requests", "ok", "errors", "in_flight"), ("p50_ms", "p99_ms", "max_ms")
BACKENDS = ["onnxruntime", "triton", "torchscript", "openvino", "tfs_protocol"]


def results(count: int, seed: int = 1, configurations: int = 5000) -> Iterator[dict[str, Any]]:
    """Results as they are stored, of a realistic size (about 8 KB) and spread; of so many configurations in turns."""
    rng, now = random.Random(seed), utc_now()
    for number in range(count):
        p50 = rng.lognormvariate(2, 1)
        run_id = f"run-{number:07d}"
        stats = {
            "count": 4800,
            "min": p50 * 0.6,
            "mean": p50 * 1.2,
            "p50": p50,
            "p90": p50 * 2,
            "p95": p50 * 2.5,
            "p99": p50 * 4,
            "p999": None,
            "max": p50 * 6,
        }
        batch_size, throughput_rps = rng.choice([1, 2, 4, 8, 16]), rng.uniform(1, 1000)
        model = rng.choice(MODELS)
        arrivals: dict[str, Any] = {"kind": "poisson", "rate_rps": rng.choice([20, 40, 80])}
        if number % configurations % 4 == 0:
            arrivals = {"kind": "closed_loop", "concurrency": rng.choice([1, 8])}
        right = {"value": 0.9, "ci95": [0.87, 0.93]}
        evaluation = {
            "dataset": "digits",
            "samples": 450,
            "samples_digest": "ab" * 32,
            "answers": {},
            "under_load": {"measures": {"top1_ratio": right}},
        }
        yield {
            "run_id": run_id,
            "attempt": 1,
            "job_id": f"job-{number % configurations}",
            "invocation_id": f"invocation-{number // 12}",
            "created_at": now - timedelta(minutes=count - number),
            "submission": {
                "name": f"nightly-{number % 40}",
                "user": f"user-{number % 60}",
                "digest": f"{number % configurations:064x}",
            },
            "model": {
                "name": model,
                "version": rng.randint(1, 9),
                "framework": "torch",
                "precision": "fp32",
                "digest": f"{MODELS.index(model):064x}",
            },
            "format": rng.choice(["onnx", "torchscript", "savedmodel"]),
            "backend": {
                "kind": rng.choice(BACKENDS),
                "version": "1.0",
                "launcher": "process",
                "settings": {"threads": rng.choice([1, 2, 4])},
            },
            "device": {"kind": rng.choice(["cpu", "gpu"]), "name": "Example"},
            "load": {
                "arrivals": arrivals,
                "batch_size": batch_size,
                "duration_s": 60.0,
            },
            "summary": {
                "e2e_latency_ms": {
                    **stats,
                    "ci95": {"p50": [p50 * 0.9, p50 * 1.1], "p99": [p50 * 3, p50 * 6]},
                },
                "send_latency_ms": stats,
                "error_ratio": 0.0 if number % 20 else 0.01,
                "energy": {
                    "method": "rapl" if number % 2 else "codecarbon",
                    "joule_per_request": p50,
                    "joule_per_sample": p50 / batch_size,
                },
                "throughput_rps": throughput_rps,
                "throughput_samples_per_s": throughput_rps * batch_size,
                "errors": {"timeout": number % 3},
                "timeseries": {
                    "t_s": list(range(-5, 60)),
                    **{name: [rng.randint(0, 99) for _ in range(65)] for name in _COUNTED},
                    **{name: [rng.lognormvariate(2, 1) for _ in range(65)] for name in _LATENCIES},
                },
            },
            "certificate": {"valid": True, "lateness_us": [rng.random() for _ in range(20)]},
            **({"extensions": {"evaluation": evaluation}} if number % 50 == 0 else {}),
            "verdict": "invalid: lateness" if number % 17 == 0 else "valid",
            "environment": {f"package_{index}": "1.2.3" for index in range(40)},
        }


@contextmanager
def filled(
    description: str | None, *, results: int = 100_000, configurations: int = 5000
) -> Iterator[tuple[PerfDB, Path]]:
    """A database of its own with results, as many as the command line says, and its folder; dropped at the end."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=int, default=results)
    parser.add_argument("--uri", help="another server than the embedded one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        try:
            db = PerfDB.connect(with_database(options.uri or embedded.ensure(folder), DATABASE), folder)
            try:
                _fill(db, options.results, configurations)
                yield db, folder
            finally:
                db.collection("results").database.client.drop_database(DATABASE)
                db.close()
        finally:
            embedded.stop(folder)


def _fill(db: PerfDB, count: int, configurations: int) -> None:
    collection, batch = db.collection("results"), []
    collection.delete_many({})
    started = time.perf_counter()
    for number, document in enumerate(results(count, configurations=configurations), 1):
        batch.append(to_stored(document))
        if len(batch) == 1000 or number == count:
            collection.insert_many(batch)
            batch.clear()
    print("server:", " ".join(f"{name}={value}" for name, value in db.server().items()))
    size = collection.database.command("collStats", "results")
    print(
        f"{count} results in {time.perf_counter() - started:.0f} s; {size['size'] / count / 1e3:.1f} KB each, "
        f"{size['storageSize'] / 1e6:.0f} MB on disk, indexes {size['totalIndexSize'] / 1e6:.0f} MB\n",
        flush=True,
    )


def measure(
    asked: dict[str, Callable[[], int]], limit_ms: float, folder: Path, size: str, first_counts: bool = False
) -> None:
    """Ask each ten times; print ``size`` (what it returns) and the times; exit with 1 if a median is over the limit,
    or one is no answer.

    ``first`` is the first time, which may have to read what later ones know; it is judged, too, if ``first_counts``.
    ``CPU`` is of this process and of the embedded MongoDB, which other work on the machine does not stretch.
    """
    try:
        slow = _measured(asked, limit_ms, folder, size, first_counts)
    except NotAnswered as error:
        print(f"\n{failed(error)}")
        sys.exit(1)
    print(
        f"\n{'PASS' if not slow else 'FAIL'}: {len(asked) - len(slow)} of {len(asked)} within {limit_ms:.0f} ms"
    )
    if slow:
        sys.exit(1)


def _measured(
    asked: dict[str, Callable[[], int]], limit_ms: float, folder: Path, size: str, first_counts: bool
) -> list[str]:
    """The names of those that are over the limit. Raises NotAnswered."""
    print(
        f"{'':<44}{size:>9}{'first ms':>10}{'median ms':>11}{'max ms':>9}{'CPU ms':>8}   limit {limit_ms:.0f} ms"
    )
    slow = []
    for name, ask in asked.items():
        begun = time.perf_counter()
        answer = ask()
        first, times, cpu_before = (time.perf_counter() - begun) * 1000, [], _cpu_s(folder)
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            answer = ask()
            times.append((time.perf_counter() - begun) * 1000)
        cpu_ms = (_cpu_s(folder) - cpu_before) * 1000 / ROUNDS
        if max(median(times), first if first_counts else 0) > limit_ms:
            slow.append(name)
        verdict = "TOO SLOW" if name in slow else "ok"
        figures = f"{first:>10.1f}{median(times):>11.1f}{max(times):>9.1f}{cpu_ms:>8.1f}"
        print(f"{name:<44}{answer:>9}{figures}   {verdict}", flush=True)
    return slow


def _cpu_s(folder: Path) -> float:
    """CPU seconds so far of this process and of the mongod below its folder."""
    # Asked of all at once: another's may end meanwhile, and then has no command line.
    servers = [
        p
        for p in psutil.process_iter(["name", "cmdline"])
        if p.info["name"] == "mongod" and f"{folder}/perfdb/db" in (p.info["cmdline"] or ())
    ]
    return float(sum(sum(p.cpu_times()[:2]) for p in (psutil.Process(), *servers)))
