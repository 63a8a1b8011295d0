"""What a sweep costs before its first job: ``python -m benchmarks.cluster.sweep``, a line for each number of jobs.

Processor time of each step of `inferbench plan`, of making and storing the submission's own DAG, and those of one part.
``calls`` are Python's function calls of the plan's steps (by cProfile, in a run of their own): unlike seconds they are
the same on a machine that others use, and twice as many jobs should make twice as many.
"""

from __future__ import annotations

import cProfile
import gc
import json
import os
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster.sizes import measure_each


def document(jobs: int) -> dict[str, Any]:
    """Ten values of one field, and as many of another as it takes."""
    sweep = {"load.seed": list(range((jobs + 9) // 10)), "serve.threads": list(range(1, 11))}
    load = {"arrivals": {"kind": "poisson", "rate_rps": 10}}
    return {"name": "sweep", "model": {"kind": "zoo", "name": "digits"}, "sweep": sweep, "load": load}


def planned(file: Path, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    """The steps of `inferbench plan`, as its command takes them."""
    from inferbench_tasks.cli.plan import draw
    from inferbench_tasks.plan.compile import compile_plan
    from inferbench_tasks.running.cluster_abilities import of_cluster_here
    from inferbench_tasks.submission.reader import read_with_jobs

    gc.disable()
    read = timed("read_s", lambda: read_with_jobs(file, of_cluster_here(file.parent)))
    plan = timed("compile_s", lambda: compile_plan(*read))
    timed("draw_s", lambda: draw(plan))
    gc.enable()


def rendered(jobs: int, home: Path, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    """The submission's own DAG and its first part, made and in the form in which Airflow stores them."""
    from inferbench_tasks.provider import metadata_db

    os.environ |= metadata_db.airflow_environment(home, home)
    from airflow.serialization.serialized_objects import LazyDeserializedDAG

    from inferbench_tasks.contracts.part import PartName
    from inferbench_tasks.provider.render import render, render_part
    from inferbench_tasks.submission.schema import Submission
    from inferbench_tasks.submission.sweep import expand

    submission = Submission.model_validate(document(jobs))
    dag = timed("dag_s", lambda: render(submission, base_dir=home, one_at_a_time=False))
    timed("dag_stored_s", lambda: LazyDeserializedDAG.from_dag(dag))
    first = expand(submission)[:50]
    part = PartName("sweep", 0, len(first) - 1)
    dag = timed(
        "part_s", lambda: render_part(submission, first, base_dir=home, one_at_a_time=False, part=part)
    )
    timed("part_stored_s", lambda: LazyDeserializedDAG.from_dag(dag))


def one(jobs: int, home: Path) -> dict[str, Any]:
    """All figures of one size; in a process of its own, which has ``home`` as Airflow's."""
    file = home / "sweep.yaml"
    file.write_text(json.dumps(document(jobs)))
    figures: dict[str, Any] = {"jobs": jobs}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = work()
        figures[name] = round(time.process_time() - begin, 2)
        return result

    planned(file, timed)
    figures["plan_s"] = round(sum(figures[f"{step}_s"] for step in ("read", "compile", "draw")), 2)
    profile = cProfile.Profile()
    profile.runcall(planned, file, lambda _, work: work())
    figures["calls"] = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    rendered(jobs, home, timed)
    return figures


if __name__ == "__main__":
    measure_each("benchmarks.cluster.sweep", __doc__, (1_000, 2_000, 10_000), one)
