"""Run an invocation's plan in this process, without Airflow: ``python -m inferbench_tasks.running.inline DIR``."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.errors import CancelledError, InferBenchError
from inferbench_tasks.interrupt import die_with_parent, interruptible
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.running.child import keeping
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.stages.base import ENDS_JOB

log = logging.getLogger(__name__)


def run_inline(invocation: Invocation) -> bool:
    """Every node in its order; a failed stage skips those that need it. True if none failed.

    What cleans up runs whenever what it cleans up after succeeded, and what follows all jobs always: as in
    the DAG.
    """
    return run_nodes(invocation, compile_plan(invocation.order().submission).nodes)


def run_nodes(invocation: Invocation, nodes: Iterable[Node], attempt: int = 1) -> bool:
    """Some nodes of an invocation's plan, each after those it needs."""
    order = invocation.order()
    outputs: dict[str, dict[str, object]] = {}
    opened: set[int | None] = set()
    failed = False
    over: set[int | None] = set()
    for node in nodes:
        if node.job_index in over:
            continue
        ready = {name: outputs[need] for name, need in node.needs.items() if need in outputs}
        if node.cleans_up:
            may_run = node.job_index in opened
        else:
            may_run = node.job_index is None or len(ready) == len(node.needs)
        if not may_run:
            continue
        try:
            with interruptible(not node.concludes):
                outputs[node.id] = execute_node(
                    node,
                    ready,
                    invocation=invocation,
                    attempt=attempt,
                    base_dir=Path(order.base_dir),
                    data_dir=Path(order.data_dir),
                    # A worker's device is leased already, to the night that this run is part of.
                    hold_machine=settings.WORKER not in os.environ,
                )
            if node.opens:
                opened.add(node.job_index)
            if outputs[node.id].get(ENDS_JOB):
                over.add(node.job_index)
        except CancelledError:
            failed = True
            invocation.cancel()  # a signal that this process got ends all of it, not this stage only
        except InferBenchError:
            failed = True  # told and recorded at the stage's border
    return not failed


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    atexit.register(gc.freeze)  # nothing is looked through once more as the interpreter ends
    die_with_parent()
    with keeping():
        outcome = run_inline(Invocation.at(Path(sys.argv[1])))
    sys.exit(0 if outcome else 1)
