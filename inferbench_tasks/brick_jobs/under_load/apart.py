"""Loads are simulated in a process of their own: it takes seconds of one core, and who serves pages has others to
answer meanwhile.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.under_load.overhead import Overhead
from inferbench_tasks.brick_jobs.under_load.rows import NO_TIME, facts_of, none_of, row_of
from inferbench_tasks.brick_jobs.under_load.timed import Timed
from inferbench_tasks.errors import InferBenchError, StageError
from inferbench_tasks.submission.schema import JobSpec

#: Below everything that a measurement, or a page, has to do.
_NICE = 10


@dataclass(frozen=True)
class Order:
    """One job, and what it is predicted from; see ``row_of``."""

    job: JobSpec
    timed: Timed
    overhead: Overhead
    base_dir: Path
    shapes: Mapping[str, tuple[int, ...]]


def rows_apart(orders: Sequence[Order], timeout_s: float) -> list[dict[str, Any]]:
    """As ``row_of``, of each, one after the other; of one that it refuses why, in its place (``none_of``). Those that
    are not there after ``timeout_s`` have what is known without a simulation, and a ``state`` that begins with
    ``NO_TIME``, or that says which time is missing, for then a simulation would not help.

    StageError where the process dies.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=pickle.dumps(list(orders)), capture_output=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        rows = _ready(late.output or b"")
        why = (
            f"{NO_TIME}: {timeout_s:.0f} s of simulation were spent before it was there; ask for it by itself or with "
            "a shorter load, or run `inferbench bricks predict FILE.yaml`, which takes as long as it needs"
        )
        rest = [facts_of(one.timed, one.overhead) for one in orders[len(rows) :]]
        return rows + [facts if "state" in facts else facts | {"state": why} for facts in rest]
    rows = _ready(done.stdout)
    if len(rows) < len(orders):
        name = orders[len(rows)].job.name
        raise StageError(f"simulating {name} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return rows


def _ready(output: bytes) -> list[dict[str, Any]]:
    """The rows of what the process has written by now: a line that has no end is none."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def main() -> None:
    """Of each order on standard input its row as a line of JSON on standard output."""
    os.nice(_NICE)
    orders: list[Order] = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    for one in orders:
        try:
            row = row_of(one.job, one.timed, one.overhead, one.base_dir, one.shapes)
        except InferBenchError as error:
            row = none_of(str(error))
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
