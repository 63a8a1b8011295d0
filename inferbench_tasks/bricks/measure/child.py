"""The process that times networks: ``python -m inferbench_tasks.bricks.measure.child PLAN``.

It reads a ``Plan`` and writes one JSON line for each step: ``{"done": n, "of": n, "what": ...}``, at last
``{"rounds": [...]}`` or ``{"failed": item, "why": ...}``. What networks print goes elsewhere.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.bricks.measure.bound import BoundNetwork
from inferbench_tasks.bricks.measure.levels import SPARE_ROUNDS, Round, good_rounds
from inferbench_tasks.bricks.measure.method import Method, trimmed_mean
from inferbench_tasks.bricks.measure.references import write_references
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.monitors.schedstat import ThreadWaits

#: Runs of a reference, before and after each round.
REFERENCE_RUNS, REFERENCE_BUDGET_S = 60, 0.25


class Item(BaseModel):
    """A network to time. ``whole``: a model as it is served, timed ``warm`` alone; else a brick, in both states."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    feeds: Path
    whole: bool = False
    onto: tuple[tuple[int, int], ...] = ()


class Plan(BaseModel):
    """What the process is to do. ``sweep_bytes``: more than a core's own cache holds."""

    items: list[Item]
    cores: list[int]
    threads: int
    method: Method
    sweep_bytes: int
    folder: Path
    seed: int


def main(path: str) -> int:
    """Time all items in rounds until enough of them are good; see the module."""
    plan = Plan.model_validate_json(Path(path).read_text(encoding="utf-8"))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    os.sched_setaffinity(0, plan.cores)
    networks: dict[str, BoundNetwork] = {}
    for item in plan.items:
        tell(done=len(networks), of=len(plan.items), what="loading")
        try:
            networks[item.name] = BoundNetwork(
                item.path, _feeds(item.feeds), threads=plan.threads, optimise=item.whole, onto=item.onto
            )
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises of a network that it can't run
            tell(failed=item.name, why=str(error))
            return 1
    references = {
        name: BoundNetwork(network, _feeds(feeds), threads=plan.threads, optimise=False)
        for name, (network, feeds) in write_references(plan.folder).items()
    }
    sweep = np.ones(plan.sweep_bytes // 8)
    rng = random.Random(plan.seed)
    gc.disable()
    rounds: list[tuple[Round, dict[str, Any]]] = []
    good: list[int] = []
    while len(good) < plan.method.rounds and len(rounds) < plan.method.rounds + SPARE_ROUNDS:
        rng.shuffle(plan.items)
        rounds.append(_round(plan, networks, references, sweep, len(rounds), tell))
        good = good_rounds([one for one, _ in rounds])
    tell(
        rounds=[
            {
                "references_ns": one.references_ns,
                "wait_ratio": one.wait_ratio,
                "good": i in good,
                "times": times,
            }
            for i, (one, times) in enumerate(rounds)
        ]
    )
    return 0


def _round(
    plan: Plan,
    networks: dict[str, BoundNetwork],
    references: dict[str, BoundNetwork],
    sweep: np.ndarray[Any, Any],
    number: int,
    tell: Any,
) -> tuple[Round, dict[str, Any]]:
    """References, all items in this round's order, references again."""
    waits, begin_ns = ThreadWaits(), time.monotonic_ns()
    before = _levels(references)
    times: dict[str, Any] = {}
    method = plan.method
    for index, item in enumerate(plan.items):
        tell(done=index, of=len(plan.items), what=f"round {number + 1}")
        network = networks[item.name]
        times[item.name] = {"warm": network.warm_ns(method.runs_each, method.budget_s)}
        if not item.whole:
            times[item.name]["streamed"] = network.streamed_ns(method.runs_each, method.budget_s, sweep)
    after = _levels(references)
    waited_ns = waits.read_ns()
    waits.close()
    took_ns = time.monotonic_ns() - begin_ns
    level = {name: (before[name] + after[name]) / 2 for name in before}
    return Round(level, None if waited_ns is None else waited_ns / took_ns), times


def _levels(references: dict[str, BoundNetwork]) -> dict[str, float]:
    return {
        name: trimmed_mean(network.warm_ns(REFERENCE_RUNS, REFERENCE_BUDGET_S))
        for name, network in references.items()
    }


def _feeds(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: np.ascontiguousarray(file[name]) for name in file.files}
    return {name: a.astype(object) if a.dtype.kind == "U" else a for name, a in arrays.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
