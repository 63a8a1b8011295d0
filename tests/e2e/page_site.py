"""InferBench's pages on the web application, with a real PerfDB behind it that holds some results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import ResultDocument, utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand
from inferbench_tasks.training import steps
from tests.listening import listened
from tests.unit.analysis.devices.builders import CPU, T4, run
from tests.unit.perfdb.builders import result
from tests.unit.regression.nights import write_nights
from tests.unit.training.epochs import JOB, answer
from tests.unit.training.report.results import view

#: A model's name that a page must show as text.
NASTY = "<script>document.title='hacked'</script>"
ROOT = Path(__file__).parents[2]
#: What a run of the past asked for, as PerfDB has it: all its fields, block and defaults too.
ASKED = next(
    iter(expand(read_submission(ROOT / "configs/submissions/quickstart.yaml", INSTALLED)))
).spec.model_dump(mode="json")


@dataclass
class Site:
    """Where the pages answer, and where screenshots go."""

    url: str
    shots: Path


def of_devices(perfdb: PerfDB) -> None:
    """One model on a CPU and four GPUs, all states of the page of devices: alone, in batches, merged, possibly within
    the bound, never asked alone, predicted; and one that nobody measured on a second device.
    """
    costs = {"flops": 8_178_000_000, "bytes": 120_000_000, "parameters": 25_600_000}
    resnet = {"name": "resnet50-with-a-name-that-is-very-long", **costs}
    v100, a10g, l4 = ({**T4, "name": f"NVIDIA {name}"} for name in ("V100-SXM2-16GB", "A10G", "L4"))
    merging: Any = {"provenance": {"job": {"serve": {"batching": {"max_batch_size": 16}}}}}
    documents = [
        run("cpu-1", CPU, 40.0, 26.0, model=resnet), run("t4-1", T4, 8.0, 130.0, model=resnet),
        run("t4-8", T4, 30.0, 420.0, batch=8, model=resnet), run("v100-1", v100, 4.0, 260.0, model=resnet),
        run("v100-8", v100, 40.1, 900.0, batch=8, model=resnet), run("a10g-1", a10g, 6.0, 200.0, model=resnet),
        run("l4-64", l4, 80.0, 1500.0, batch=64, model=resnet),
        run("merged", T4, 9.0, 150.0, model=resnet, **merging) | {"submission": {"name": "s", "digest": "merged"}},
        run("alone", CPU, 5.0, 200.0, model={"name": "tiny", "source_digest": "99" * 32}),
    ]  # fmt: skip
    for document in documents:
        document.pop("judgement")
        perfdb.save_result(ResultDocument.model_validate(document))


def seed(perfdb: PerfDB, folder: Path) -> None:
    """Three runs, one that was cancelled, two trainings, some nights, a device."""
    results = []
    for number, (name, p99_ms) in enumerate({"slow": 90.0, "fast": 10.0, "middle": 40.0}.items()):
        model = {"name": NASTY if name == "slow" else "digits", "task": "classification", "dataset": "seen"}
        digest = {"name": name, "user": "ann", "digest": f"{number:064x}"}
        summary = {"e2e_latency_ms": {"p99": p99_ms}, "throughput_rps": 10.0, "accuracy_ratio": 0.97}
        results.append(result(f"{name}-run", summary=summary, job_id=name, submission=digest, model=model))
    perfdb.collection("results").insert_many([dict(to_stored(document)) for document in results])
    raw_steps = folder / "steps.parquet"
    steps.write([answer(0), answer(1)], raw_steps)
    for label, factor in (("fast", 1), ("slow", 2)):
        training = view(label, factor, interval=(600, 700), ranks=2).result
        perfdb.start_run(training.run_id, "x-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(training, raw_steps)
        perfdb.end_run(training.run_id, training.verdict)
    perfdb.start_run("asked-1.000", "asked-1", "asked", ASKED)
    perfdb.stage_started("asked-1.000", "serve")
    perfdb.stage_holds("asked-1.000", "serve", 1, ["gpu:0"])
    perfdb.stage_finished("asked-1.000", "serve", output={}, duration_s=1.0)
    held = {"stages.0.started_at": utc_now() - timedelta(minutes=40)}
    perfdb.collection("runs").update_one({"_id": "asked-1.000"}, {"$set": held})
    perfdb.end_run("asked-1.000", Verdict.cancelled("load"))
    write_nights(perfdb, [{}] * 5 + [{"preprocess": 2.0}] * 3, name="nightly-with-a-name-that-is-long")
    told = "the clock is throttled (thermal): 1,200 of 1,980 MHz"
    Cluster(perfdb).register(
        Device(device_id="gpu:0", device_type="h200", name="NVIDIA H200", host="rack-7", health="quarantined",
               reason=told)
    )  # fmt: skip


@contextmanager
def served(perfdb: PerfDB, folder: Path) -> Iterator[Site]:
    """The web application on a port of its own, of what ``seed`` leaves."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI

    from inferbench_tasks.provider.api import cluster
    from inferbench_tasks.provider.api.access import READER, may_change, sees_logs, store
    from inferbench_tasks.provider.api.app import app

    seed(perfdb, folder)
    outer = FastAPI()
    outer.mount("/inferbench", app)
    shots = Path(os.environ.get("INFERBENCH_SCREENSHOTS") or folder)
    shots.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.SUBMISSIONS_DIR, str(ROOT / "configs" / "submissions"))
        patch.setitem(app.dependency_overrides, READER.dependency, lambda: None)
        patch.setitem(app.dependency_overrides, store, lambda: perfdb)
        ann = SimpleNamespace(get_name=lambda: "ann")
        patch.setitem(app.dependency_overrides, get_user, lambda: ann)
        patch.setitem(app.dependency_overrides, may_change, lambda: lambda dag_id: True)
        patch.setitem(app.dependency_overrides, sees_logs, lambda: True)
        patch.setattr(cluster, "coming", list)  # Airflow's database is none here
        with listened(outer) as url:
            yield Site(url, shots)
