"""A job's load is simulated in a process of its own: it takes seconds of one core, and who serves pages has others to
answer meanwhile.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.under_load.overhead import Overhead
from inferbench_tasks.brick_jobs.under_load.rows import row_of
from inferbench_tasks.brick_jobs.under_load.timed import Timed
from inferbench_tasks.errors import InferBenchError, InputError, StageError
from inferbench_tasks.submission.schema import JobSpec

#: Below everything that a measurement, or a page, has to do.
_NICE = 10


def row_apart(
    job: JobSpec,
    timed: Timed,
    overhead: Overhead,
    base_dir: Path,
    shapes: Mapping[str, tuple[int, ...]],
    timeout_s: float,
) -> dict[str, Any]:
    """As ``row_of``. InputError as there; StageError where it takes longer than ``timeout_s``, or its process dies."""
    order = pickle.dumps((job, timed, overhead, base_dir, dict(shapes)))
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=order, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise StageError(
            f"simulating {job.name} took longer than {timeout_s:.0f} s: give a shorter load, or run "
            "`inferbench bricks predict FILE.yaml`, which takes as long as it needs"
        ) from None
    if done.returncode:
        raise StageError(f"simulating {job.name} failed: {done.stderr.decode(errors='replace')[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "row" in answer:
        row: dict[str, Any] = answer["row"]
        return row
    if answer["input"]:
        raise InputError(answer["why"], field=answer["field"])
    raise StageError(answer["why"])


def main() -> None:
    """What ``row_apart`` sent, on standard input; its row, or why there is none, as JSON on standard output."""
    os.nice(_NICE)
    job, timed, overhead, base_dir, shapes = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    answer: dict[str, Any]
    try:
        answer = {"row": row_of(job, timed, overhead, base_dir, shapes)}
    except InputError as error:
        answer = {"why": error.message, "input": True, "field": error.field}
    except InferBenchError as error:
        answer = {"why": str(error), "input": False}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
