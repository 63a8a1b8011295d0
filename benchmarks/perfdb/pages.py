"""How long the pages and the REST API take on the server with 100,000 results.

    python -m benchmarks.perfdb.pages [--results 100000] [--uri mongodb://...]

Fills a database of its own as ``questions.py`` does, asks each page ten times through the real web application
(only the login is taken for granted; compressed as Airflow's server does; what pages ask of Airflow comes from a
migrated, empty database of its own), and prints its weight (compressed, with its styles and scripts, without plotly),
median and maximum in ms against the limit; exit code 1 if one is over it, the first time included, heavier than
400 kB, or no answer. Before that the application reads what all pages share, as it does when the API server has
started; the second line says how long that takes.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi.testclient import TestClient

from benchmarks.perfdb.answered import require_answered, require_light, require_points
from benchmarks.perfdb.filled import filled, measure, results
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored

LIMIT_MS = 200.0
#: What a page may weigh, compressed, with all that it needs but plotly.
MOST_BYTES = 400_000
_STATIC = re.compile(r'(?:src|href)="(/inferbench/static/[^"]+)"')
#: What can be recommended among: one model under one load.
ONE_LOAD = "model=resnet7&load=poisson,%2080%20samples/s"
PAGES = {
    "home": "/home",
    "new benchmark": "/new",
    "trainings": "/trainings",
    "bricks": "/bricks",
    "regression": "/regression",
    "timeline of a week": "/cluster?hours=168",
    "API: points of the picture": "/api/points",
    "API: points, another colour": "/api/points?x=p50_ms&y=throughput_rps&colour=device",
    "API: points, a number as colour": "/api/points?y=throughput_rps&colour=settings.threads",
    "API: range of a figure": "/api/range?figure=p99_ms",
    "recommend, what its fields offer": "/recommend/offers?figure=p99_ms&figure=throughput_rps",
    "leaderboard by p99": "/leaderboard",
    "leaderboard by throughput": "/leaderboard?by=throughput_rps",
    "leaderboard within the picture's line": "/leaderboard?x=p99_ms&bound=20&colour=backend&off=triton",
    "leaderboard by energy, of two methods": "/leaderboard?by=joule_per_request",
    "leaderboard by CO2 (nobody has it)": "/leaderboard?by=co2_g_per_1k_samples",
    "leaderboard of a model": "/leaderboard?model=resnet7",
    "leaderboard of a backend, user and date": "/leaderboard?backend=triton&user=user-7&since=30d",
    "leaderboard of a device, by p50": "/leaderboard?device=gpu&by=p50_ms",
    "leaderboard until yesterday": "/leaderboard?until=1d",
    "leaderboard, all runs": "/leaderboard?all=1",
    "runs": "/runs",
    "runs, page 101": "/runs?offset=5000",
    "runs, the last page that can be asked for": "/runs?offset=10000",
    "runs of models by p99": "/runs?model=resnet1*&sort=p99_ms",
    "runs by a share that most have alike": "/runs?sort=error_ratio",
    "runs by it, the largest first, page 101": "/runs?sort=-error_ratio&offset=5000",
    "runs that are invalid": "/runs?q=verdict=invalid",
    "runs, no match": "/runs?model=*zzz",
    "one run": "/run/run-0000077",
    "compare 6": "/compare?" + "&".join(f"run=run-{number:07d}" for number in range(1, 7)),
    "recommend, all: too many loads": "/recommend?by=throughput_rps&slo=p99_ms<=20",
    "recommend, a model": f"/recommend?by=throughput_rps&slo=p99_ms<=20&{ONE_LOAD}",
    "recommend, three bounds": f"/recommend?by=p50_ms&slo=p99_ms<=90&slo=throughput_rps>=9&slo=p95_ms<=80&{ONE_LOAD}",
    "recommend, since 30 days": f"/recommend?by=throughput_rps&slo=p99_ms<=20&since=30d&{ONE_LOAD}",
    "cluster": "/cluster",
    "devices": "/devices",
    "systems": "/systems",
    "systems of a model": "/systems?model=resnet7",
    "models": "/models",
    "a model": "/model?name=resnet7",
    "evaluations": "/evaluations",
    "traces": "/traces",
    "trainings by scaling": "/trainings/scaling",
    "clusters of trainings": "/trainings/clusters",
    "API: leaderboard as CSV": "/api/leaderboard?limit=500&format=csv",
    "API: runs": "/api/runs?limit=500",
}


def weight(answer: Any) -> int:
    """Bytes of the answer as they were sent."""
    return int(answer.headers["content-length"])


def own_airflow(folder: Path) -> None:
    """Airflow with a migrated, empty database in that folder, as its server has one: pages ask it what was sent.

    Before anything imports Airflow, which then is that of ``AIRFLOW_HOME``.
    """
    from inferbench_tasks.provider import metadata_db

    if "airflow" in sys.modules:
        raise RuntimeError("Airflow is imported already, with whatever database it found")
    home = folder / "airflow_home"
    home.mkdir(exist_ok=True)
    metadata_db.migrate(home / "airflow.db", folder)
    os.environ |= metadata_db.airflow_environment(home, home)


def application(db: PerfDB, folder: Path) -> TestClient:
    """Somebody who asks the real web application, which has read what all pages share; ``folder``: for its Airflow."""
    own_airflow(folder)
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI
    from fastapi.middleware.gzip import GZipMiddleware

    from inferbench_tasks.provider.api.access import READER, may_change, sees_logs, store
    from inferbench_tasks.provider.api.app import app
    from inferbench_tasks.provider.api.warm import read_ahead

    app.dependency_overrides |= {
        READER.dependency: lambda: None,
        store: lambda: db,
        get_user: lambda: SimpleNamespace(get_name=lambda: "user-7"),
        may_change: lambda: lambda dag_id: True,
        sees_logs: lambda: True,
    }
    logging.disable(logging.INFO)  # a line per request
    began = time.perf_counter()
    read_ahead(db)
    print(f"read ahead in {time.perf_counter() - began:.1f} s\n", flush=True)
    outer = FastAPI()
    outer.mount("/inferbench", app)
    outer.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    return TestClient(outer)


def pages(db: PerfDB, folder: Path) -> dict[str, Callable[[], int]]:
    """Each page; returns its bytes."""
    client = application(db, folder)

    @cache
    def static(path: str) -> int:
        return 0 if "plotly" in path else weight(client.get(path))

    def get(path: str) -> int:
        answer = client.get(f"/inferbench{path}")
        require_answered(path, answer)
        require_points(path, answer)
        total = weight(answer) + sum(map(static, set(_STATIC.findall(answer.text))))
        require_light(path, total, MOST_BYTES)
        return total

    numbers = itertools.count()

    def after_a_result() -> int:
        document = next(results(1)) | {"run_id": f"new-{next(numbers)}", "created_at": utc_now()}
        db.collection("results").insert_one(to_stored(document))
        return get("/leaderboard")

    def after_a_deletion() -> int:
        db.delete_result(f"run-{10_000 + next(numbers):07d}")
        return get("/leaderboard")

    def after_a_change() -> int:
        named = {"run_id": f"run-{20_000 + next(numbers):07d}"}
        db.collection("results").update_one(named, {"$set": {"summary.e2e_latency_ms.p99": 1.0}})
        return get("/leaderboard")

    asked: dict[str, Callable[[], int]] = {name: partial(get, path) for name, path in PAGES.items()}
    return asked | {
        "leaderboard, right after a new result": after_a_result,
        "leaderboard, right after a deletion": after_a_deletion,
        "leaderboard, right after a change": after_a_change,
    }


if __name__ == "__main__":
    with filled(__doc__) as (db, folder):
        measure(pages(db, folder), LIMIT_MS, folder, "bytes", first_counts=True)
