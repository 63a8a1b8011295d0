"""How long the pages and the REST API take on the server with 100,000 results.

    python benchmarks/perfdb/pages.py [--results 100000] [--uri mongodb://...]

Fills a database of its own as ``questions.py`` does, asks each page ten times through the real web application
(only the login is taken for granted), and prints median and maximum in ms against the limit; beside them
the CPU time of application and embedded MongoDB together, which other work on the machine does not stretch.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from questions import results

from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored

LIMIT_MS = 500.0
ROUNDS = 10
DATABASE = "inferbench_benchmark"
PAGES = {
    "leaderboard by p99": "/leaderboard",
    "leaderboard by throughput": "/leaderboard?by=throughput_rps",
    "leaderboard by energy (nobody has it)": "/leaderboard?by=energy_j",
    "leaderboard of a model": "/leaderboard?model=resnet7",
    "leaderboard of a backend, user and date": "/leaderboard?backend=triton&user=user-7&since=30d",
    "leaderboard of a device, by p50": "/leaderboard?device=gpu&by=p50_ms",
    "leaderboard, all runs": "/leaderboard?all=1",
    "runs": "/runs",
    "runs, page 101": "/runs?offset=5000",
    "runs, the last page that can be asked for": "/runs?offset=10000",
    "runs of models by p99": "/runs?model=resnet1*&sort=p99_ms",
    "runs that are invalid": "/runs?q=verdict=invalid",
    "runs, no match": "/runs?model=*zzz",
    "one run": "/run/run-0000077",
    "compare 6": "/compare?" + "&".join(f"run=run-{number:07d}" for number in range(1, 7)),
    "recommend, all": "/recommend?by=throughput_rps&slo=p99_ms<=20",
    "recommend, a model": "/recommend?by=throughput_rps&slo=p99_ms<=20&model=resnet7",
    "cluster": "/cluster",
    "API: leaderboard as CSV": "/api/leaderboard?limit=500&format=csv",
    "API: runs": "/api/runs?limit=500",
}


def cpu_s(folder: str) -> float:
    """CPU seconds so far of this process and of the mongod that it started or found below its folder."""
    import psutil

    servers = [
        p
        for p in psutil.process_iter(["name"])
        if p.info["name"] == "mongod" and f"{folder}/perfdb/db" in p.cmdline()
    ]
    return sum(sum(p.cpu_times()[:2]) for p in (psutil.Process(), *servers))


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--uri", help="another server than the embedded one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uri = with_database(options.uri or embedded.ensure(Path(folder)), DATABASE)
        try:
            measure(PerfDB.connect(uri, Path(folder)), options.results, folder)
        finally:
            embedded.stop(Path(folder))


def measure(db: PerfDB, count: int, folder: str) -> None:
    """All pages against one server."""
    from fastapi.testclient import TestClient

    from inferbench_tasks.provider.api.access import READER, store
    from inferbench_tasks.provider.api.app import app

    app.dependency_overrides |= {READER.dependency: lambda: None, store: lambda: db}
    collection = db.collection("results")
    try:
        collection.delete_many({})
        batch: list[dict[str, Any]] = []
        for number, document in enumerate(results(count), 1):
            # 5,000 configurations that were run 20 times each.
            document["submission"]["digest"] = hashlib.sha256(document["job_id"].encode()).hexdigest()
            batch.append(to_stored(document))
            if len(batch) == 1000 or number == count:
                collection.insert_many(batch)
                batch.clear()
        client = TestClient(app)
        print(
            f"{count} results\n{'page':<44}{'bytes':>9}{'median ms':>11}{'max ms':>9}{'CPU ms':>9}"
            f"   limit {LIMIT_MS:.0f} ms"
        )
        for name, path in PAGES.items():
            times = []
            client.get(path)  # templates, imports, connections
            cpu_before = cpu_s(folder)
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                answer = client.get(path)
                times.append((time.perf_counter() - begun) * 1000)
                assert answer.status_code == 200, (path, answer.status_code, answer.text[:300])
            verdict = "ok" if median(times) <= LIMIT_MS else "TOO SLOW"
            cpu_ms = (cpu_s(folder) - cpu_before) * 1000 / ROUNDS
            figures = f"{median(times):>11.1f}{max(times):>9.1f}{cpu_ms:>9.1f}"
            print(f"{name:<44}{len(answer.content):>9}{figures}   {verdict}", flush=True)
    finally:
        collection.database.client.drop_database(DATABASE)
        db.close()


if __name__ == "__main__":
    main()
