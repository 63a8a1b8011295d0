"""What a run on one host pays for handles that could travel: pairs of runs, with and without, in random order.

    python -m benchmarks.artifacts.overhead DATA_DIR [PAIRS]

All stages of one short job run in this process as Airflow's tasks run them, on a PerfDB of DATA_DIR; "without" hands
paths from stage to stage as before. Prints the median of the pairs' differences, with its 95% interval by bootstrap.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running import execute
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.submission.reader import read_submission_text

JOB = """
name: overhead
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 3, warmup_s: 0.5, wait_for_quiet_s: 0}
"""


def run(number: str, data_dir: Path, *, travels: bool) -> tuple[float, float]:
    """Seconds of all stages, and of the processor for what is not the load: this process's own."""
    depot: Any = execute._depot
    if not travels:
        execute._depot = lambda *_: None  # type: ignore[assignment]
    try:
        outputs: dict[str, dict[str, Any]] = {}
        started_s, cpu_s = time.monotonic(), time.process_time()
        for node in compile_plan(read_submission_text(JOB, "overhead.yaml", INSTALLED)).nodes:
            invocation = Invocation.of_dag_run(data_dir, "overhead", number)
            ready = {name: outputs[need] for name, need in node.needs.items() if need in outputs}
            outputs[node.id] = execute.execute_node(
                node, ready, invocation=invocation, base_dir=data_dir, data_dir=data_dir, hold_machine=False
            )
        return time.monotonic() - started_s, time.process_time() - cpu_s
    finally:
        execute._depot = depot


def main(data_dir: Path, pairs: int) -> None:
    os.environ[settings.DATA_DIR] = str(data_dir)
    run("first", data_dir, travels=True)  # makes the model
    rows = []
    for pair in range(pairs):
        order = random.sample([True, False], 2)
        found = {travels: run(f"{time.time_ns()}", data_dir, travels=travels) for travels in order}
        rows.append((*found[True], *found[False]))
        print(json.dumps({"pair": pair, "with": found[True], "without": found[False]}), flush=True)
    table = np.array(rows)
    for name, at in (("wall", 0), ("cpu", 1)):
        difference_s, base_s = table[:, at] - table[:, at + 2], float(np.median(table[:, at + 2]))
        draws = np.random.default_rng(0).choice(difference_s, (10_000, len(difference_s)))
        low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
        median_s = float(np.median(difference_s))
        print(f"{name}: {base_s:.3f} s without; {median_s * 1e3:+.1f} ms [{low * 1e3:+.1f}, {high * 1e3:+.1f}], "
              f"{median_s / base_s:+.2%} [{low / base_s:+.2%}, {high / base_s:+.2%}]")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 15)
