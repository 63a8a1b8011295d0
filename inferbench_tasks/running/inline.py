"""Run an invocation's plan in this process, without Airflow: ``python -m inferbench_tasks.running.inline DIR``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.errors import CancelledError, InferBenchError
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.running.child import keeping
from inferbench_tasks.running.execute import LAST_WORDS, execute_stage
from inferbench_tasks.running.interrupt import die_with_parent, interruptible
from inferbench_tasks.running.invocation import Invocation

log = logging.getLogger(__name__)


def run_inline(invocation: Invocation) -> bool:
    """Every node in its order; a failed stage skips those that need it. True if none failed.

    ``release`` runs whenever its ``serve`` succeeded, and ``analyze`` always: as in the DAG.
    """
    return run_nodes(invocation, compile_plan(invocation.order().submission).nodes)


def run_nodes(invocation: Invocation, nodes: Iterable[Node], attempt: int = 1) -> bool:
    """Some nodes of an invocation's plan, each after those it needs."""
    order = invocation.order()
    outputs: dict[str, dict[str, object]] = {}
    failed = False
    for node in nodes:
        if not _may_run(node, outputs):
            continue
        ready = {need.rsplit(".", 1)[-1]: outputs[need] for need in node.needs if need in outputs}
        try:
            with interruptible(node.stage not in LAST_WORDS):
                outputs[node.id] = execute_stage(
                    node.stage,
                    node.input,
                    ready if node.job_index is not None else {},
                    invocation=invocation,
                    job_index=node.job_index,
                    attempt=attempt,
                    base_dir=Path(order.base_dir),
                    data_dir=Path(order.data_dir),
                    # A worker's device is leased already, to the night that this run is part of.
                    hold_machine=settings.WORKER not in os.environ,
                )
        except CancelledError:
            failed = True
            invocation.cancel()  # a signal that this process got ends all of it, not this stage only
        except InferBenchError:
            failed = True  # told and recorded at the stage's border
    return not failed


def _may_run(node: Node, outputs: dict[str, dict[str, object]]) -> bool:
    if node.stage == "analyze":
        return True
    if node.stage == "release":
        return any(need.endswith(".serve") and need in outputs for need in node.needs)
    return all(need in outputs for need in node.needs)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    die_with_parent()
    with keeping():
        done = run_inline(Invocation.at(Path(sys.argv[1])))
    sys.exit(0 if done else 1)
