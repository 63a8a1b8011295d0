"""How long questions of bricks take with 100,000 stored results, the plan of fifty models, and taking models apart.

    python -m benchmarks.bricks.speed [--results 100000] [--models resnet50 ...] [--rows FILE] [--minutes 60]

Fills a database of its own (dropped afterwards) with results of as many bricks on ten settings, 500 models cut, 50 of
them measured as a whole at each setting. A prediction from stored results is to come within 200 ms, the page *Bricks*
within 500 ms, the plan of `paper50` within 5 s, each in the median of ten.

Each architecture of `paper50` (or of ``--models``) is decomposed within 5 s once it is converted: the median of three,
in a sandbox of its own as `bricks decompose` has it, so its process' start and imports are in the time.

A row each (Parquet). Exit code 1 where one is over; 2 where none is and an architecture was left out or not begun.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from fastapi.testclient import TestClient

from benchmarks.bricks import rows as raw_rows
from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.brick_jobs import stored
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS
from inferbench_tasks.brick_jobs.gaps import gaps
from inferbench_tasks.brick_jobs.store import RESULTS, PerfDBResults
from inferbench_tasks.bricks.corpus import read_corpus
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result, setting_id
from inferbench_tasks.cli.bricks_model import asked, named
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.child import keeping
from inferbench_tasks.submission.reader import read_submission_text

SETTINGS, MODELS, WHOLES, BRICKS_OF_A_MODEL, REPEATS = 10, 500, 50, 120, 10
LIMITS_MS = {
    "predict": 200.0,
    "page": 500.0,
    "plan": 5000.0,
    "list": 500.0,
    "gaps": 500.0,
    "decompose": 5000.0,
}
CUTS = 3
PLAN = """\
kind: bricks
name: fifty
models: {corpus: paper50}
bricks: {granularity: [1, 3], batch_sizes: [1, 2, 4, 8]}
"""


def main() -> int:
    """Fill, ask, judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--models", nargs="*", help="Built-in models to take apart; none: not at all.")
    raw_rows.options(parser, "speed", "model")
    options = parser.parse_args()
    end = raw_rows.ends_at(options)
    every = [entry.model for entry in read_corpus("paper50").models]
    models = every if options.models is None else options.models
    base = settings.perfdb_uri() or embedded.ensure(settings.writable(settings.data_dir()))
    uri = with_database(base, f"inferbench_bricks_{uuid.uuid4().hex[:8]}")
    with PerfDB.connect(uri, settings.data_dir()) as db:
        try:
            began = time.monotonic()
            fill(db, options.results)
            print(
                f"filled in {time.monotonic() - began:.0f} s: {db.collection(RESULTS).count_documents({}):,} results"
            )
            rows = [*judge(db), *decomposed(models, end)]
        finally:
            db.collection(RESULTS).database.client.drop_database(db.collection(RESULTS).database.name)
    raw_rows.write(
        options.rows, [{**raw_rows.where("onnxruntime", "onnx-ir", "pymongo"), **row} for row in rows]
    )
    if any(row["median_ms"] > row["limit_ms"] for row in rows):
        return 1
    if lacking := sorted(set(every) - {row["model"] for row in rows if "model" in row}):
        print(f"decompose: not judged of {len(lacking)} of {len(every)} architectures")
        return 2
    return 0


def fill(db: PerfDB, count: int) -> None:
    """Bricks by number; a model's are chosen by its own number, so that models share some."""
    each = (count - SETTINGS * WHOLES) // SETTINGS
    for number in range(SETTINGS):
        setting = Setting(
            processor=f"CPU {number}", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1"
        )
        store = PerfDBResults(db, setting)
        store.set_base_ns({"dense": 1.0})
        names = [f"{brick:064x}" for brick in range(each)] + [
            f"{WHOLE}{model:064x}" for model in range(WHOLES)
        ]
        for start in range(0, len(names), 2_000):
            db.collection(RESULTS).insert_many(
                [_stored(setting, name) for name in names[start : start + 2_000]]
            )
    for model in range(MODELS):
        parts = [f"{(7 * model + 3 * brick) % each:064x}" for brick in range(BRICKS_OF_A_MODEL)]
        db.collection(DECOMPOSITIONS).insert_one(
            {
                "whole": f"{WHOLE}{model:064x}", "granularity": "1", "parts": parts, "model": f"model{model}",
                "needs": [[index - 1] if index else [] for index in range(len(parts))], "batch_size": 1,
                "instruction_set": "x", "layers": len(parts), "created_at": utc_now() - timedelta(seconds=model),
            }
        )  # fmt: skip


def _stored(setting: Setting, name: str) -> dict[str, Any]:
    seed = int(name[-12:], 16)
    times = {"warm": (1e5 + seed,) * 3, "streamed": (2e5 + seed,) * 3}
    result = Result(
        identity=name, key=name[-64:], operators=(f"Op{seed % 60}" if len(name) == 64 else name,), setting=setting,
        session="s.000/1", method=Method(), rounds_ns=times,
        raw_ns={state: (tuple(range(100_000, 100_034)),) * 3 for state in times},
    )  # fmt: skip
    values: dict[str, Any] = to_stored(result.model_dump(exclude={"parts", "needs"}))
    return values | {"setting_id": setting_id(setting), "whole": name.startswith(WHOLE), "usable": True}


def judge(db: PerfDB) -> list[dict[str, Any]]:
    """A row for each question."""
    client = web(db)
    questions: dict[str, tuple[str, Callable[[], Any]]] = {
        "predict, one device": ("predict", lambda: stored.predicted(db, "model7", "CPU 3")),
        "GET /bricks/predict": (
            "predict",
            lambda: _get(client, "/api/bricks/predict?model=model7&device=CPU 3"),
        ),
        "GET /bricks": ("list", lambda: _get(client, "/api/bricks?limit=100")),
        "gaps of one device": ("gaps", lambda: gaps(db, "CPU 3")),
        "page Bricks": ("page", lambda: _get(client, "/bricks")),
        "plan of paper50, 8 cuts of each": ("plan", plan),
    }
    found = stored.predicted(db, "model7", "CPU 3")
    assert found["predicted_ms"] and found["missing"] == 0 and len(found["calibrated_by"]) == 3, found
    return [_timed(name, LIMITS_MS[limit], ask) for name, (limit, ask) in questions.items()]


def _timed(name: str, limit_ms: float, ask: Callable[[], Any], repeats: int = REPEATS) -> dict[str, Any]:
    times_ms = []
    for _ in range(repeats):
        began = time.perf_counter()
        ask()
        times_ms.append(1e3 * (time.perf_counter() - began))
    middle = statistics.median(times_ms)
    verdict = "passed" if middle <= limit_ms else "FAILED"
    print(
        f"{name:34} median {middle:8.0f} ms, most {max(times_ms):8.0f} ms, limit {limit_ms:6.0f}: {verdict}",
        flush=True,
    )
    return {
        "question": name,
        "median_ms": middle,
        "most_ms": max(times_ms),
        "limit_ms": limit_ms,
        "times_ms": times_ms,
    }


def decomposed(models: Sequence[str], end: float) -> Iterator[dict[str, Any]]:
    """A row for each; the first time it is converted, which is not timed."""
    with keeping():
        for name in models:
            if time.monotonic() > end:
                return
            with asked(named(name, None), lambda *step: None) as (common, ctx):

                def cut(common: dict[str, Any] = common, ctx: Any = ctx) -> Any:
                    return asked_to_cut(ctx, set(), **common, networks=False, wholes=False)

                cut()
                yield {"model": name, **_timed(f"decompose {name}", LIMITS_MS["decompose"], cut, CUTS)}


def plan() -> None:
    """Read and compile."""
    compile_plan(read_submission_text(PLAN, "fifty.yaml", INSTALLED))


def web(db: PerfDB) -> TestClient:
    """The web application on this database, with the login taken for granted."""
    from airflow.api_fastapi.core_api.security import get_user

    from inferbench_tasks.provider.api.access import READER, store
    from inferbench_tasks.provider.api.app import app

    app.dependency_overrides = {
        get_user: lambda: SimpleNamespace(get_name=lambda: "benchmark"),
        READER.dependency: lambda: None,
        store: lambda: db,
    }
    return TestClient(app)


def _get(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text


if __name__ == "__main__":
    sys.exit(main())
