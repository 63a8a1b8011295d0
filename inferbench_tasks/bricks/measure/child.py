"""The process that times networks: ``python -m inferbench_tasks.bricks.measure.child PLAN``.

It reads a ``Plan`` and writes one JSON line for each step: ``{"done": n, "of": n, "what": ...,
"item": ...}``, at last ``{"rounds": [...]}`` or ``{"failed": item, "why": ...}``. What networks print goes elsewhere.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.bricks.measure.bound import BoundNetwork
from inferbench_tasks.bricks.measure.journal import Journal, OpenRound
from inferbench_tasks.bricks.measure.levels import SPARE_ROUNDS, Round, good_rounds, longest_ns, stolen
from inferbench_tasks.bricks.measure.method import DEVICE, Method, trimmed_mean
from inferbench_tasks.bricks.measure.references import write_references
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.monitors.steal import StolenTime

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
    """What the process is to do. ``sweep_bytes``: more than a core's own cache holds. ``journal``: where each time is
    written as soon as it is there, and read by a process that goes on; ``attempt``: whose times these are. ``runtime``:
    of the networks and references."""

    items: list[Item]
    cores: list[int]
    threads: int
    method: Method
    sweep_bytes: int
    folder: Path
    seed: int
    journal: Path | None = None
    attempt: str | None = None
    runtime: str = DEFAULT


def main(path: str) -> int:
    """Time all items in rounds until enough of them are good; see the module."""
    plan = Plan.model_validate_json(Path(path).read_text(encoding="utf-8"))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    os.sched_setaffinity(0, plan.cores)
    if plan.method.within_ratio:  # before anything is timed: it takes a while, and much memory is touched
        import inferbench_tasks.bricks.measure.precise  # noqa: F401
    networks: dict[str, BoundNetwork] = {}
    loading_ns: dict[str, int] = {}
    for item in plan.items:
        tell(done=len(networks), of=len(plan.items), what="loading", item=item.name)
        begin_ns = time.monotonic_ns()
        try:
            networks[item.name] = BoundNetwork(
                item.path, _feeds(item.feeds), threads=plan.threads, whole=item.whole, onto=item.onto,
                runtime=plan.runtime,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises of a network that it can't run
            tell(failed=item.name, why=str(error))
            return 1
        loading_ns[item.name] = time.monotonic_ns() - begin_ns
    references = {
        name: BoundNetwork(network, _feeds(feeds), threads=plan.threads, whole=False, runtime=plan.runtime)
        for name, (network, feeds) in write_references(plan.folder).items()
    }
    sweep = np.ones(plan.sweep_bytes // 8)
    rng = random.Random(plan.seed)
    gc.disable()
    journal = Journal(plan.journal, plan.attempt)
    rounds = journal.usable(networks.keys())
    good, given_up = good_rounds([one for one, _ in rounds]), list[Round]()
    while len(good) < plan.method.rounds and len(rounds) + len(given_up) < plan.method.rounds + SPARE_ROUNDS:
        rng.shuffle(plan.items)
        most_ns, number = longest_ns([one for one, _ in rounds]), len(rounds) + len(given_up)
        made, times = _round(plan, networks, references, sweep, number, journal, tell, most_ns)
        if times is None:
            given_up.append(made)
            continue
        rounds.append((made, times))
        good = good_rounds([one for one, _ in rounds])
    tell(
        loading_ns=loading_ns,
        given_up=[
            {"taken_ns": one.taken_ns, "earlier_ns": one.earlier_ns, "steal_ratio": one.steal_ratio}
            for one in given_up
        ],
        rounds=[
            {
                "references_ns": one.references_ns,
                "wait_ratio": one.wait_ratio,
                "steal_ratio": one.steal_ratio,
                "good": i in good,
                "times": {name: times[name] for name in networks},  # not of one that failed since
                "taken_ns": one.taken_ns,
                "earlier_ns": one.earlier_ns,
            }
            for i, (one, times) in enumerate(rounds)
        ],
    )
    return 0


def _round(
    plan: Plan,
    networks: dict[str, BoundNetwork],
    references: dict[str, BoundNetwork],
    sweep: np.ndarray[Any, Any],
    number: int,
    journal: Journal,
    tell: Any,
    most_ns: float | None = None,
) -> tuple[Round, dict[str, Any] | None]:
    """References, all items in this round's order, references again: the round with what it took, and its times. A
    round that another process began is gone on with, if that had its cores to itself and the machine is as fast as it
    was then. One that could not count though it took ``most_ns`` in the end, for what it waited for its cores or what
    the hypervisor took of them, is given up: it took what it took until then, and has no times. Of one that waited for
    too long, and of which the hypervisor took no more than it may, nothing is told of the latter."""
    waits, taken, begin_ns = ThreadWaits(), StolenTime(plan.cores), time.monotonic_ns()
    current = _begun(journal, _levels(references))
    waited_ns, stolen_ns, took_ns = current.waited_ns, current.stolen_ns, current.took_ns

    def count() -> dict[str, int | None]:
        current.waited_ns = _sum(waited_ns, waits.read_ns())
        current.stolen_ns = _sum(stolen_ns, taken.least_ns())
        current.took_ns = took_ns + time.monotonic_ns() - begin_ns
        return {"waited_ns": current.waited_ns, "stolen_ns": current.stolen_ns, "took_ns": current.took_ns}

    method = plan.method
    for index, item in enumerate(plan.items):
        if item.name in current.times:
            continue
        tell(done=index, of=len(plan.items), what=f"round {number + 1}", item=item.name)
        network, item_ns = networks[item.name], time.monotonic_ns()
        asked = method.runs_each, method.budget_s
        times = {"warm": network.warm_ns(*asked, within_ratio=method.within_ratio)}
        if network.device_ns:
            times[DEVICE] = network.device_ns
        if not item.whole:
            times["streamed"] = network.streamed_ns(*asked, sweep, within_ratio=method.within_ratio)
        current.times[item.name] = times
        current.taken_ns[item.name] = time.monotonic_ns() - item_ns
        journal.write(item=item.name, times=times, item_ns=current.taken_ns[item.name], **count())
        if most_ns is not None and not current.may_count(took_ns=most_ns):
            waits.close()
            made = current.closed()
            for_steal = stolen(current.closed(most_ns).steal_ratio)
            return made if for_steal else replace(made, steal_ratio=None), None
    current.references.append(_levels(references))
    journal.write(after=current.references[-1], **count())
    waits.close()
    return current.closed(), current.times


def _begun(journal: Journal, now: dict[str, float]) -> OpenRound:
    """The round that is under way: one that another process began, or a new one."""
    before, journal.open = journal.open, None
    if before is not None and before.may_count() and before.near(now):
        before.references.append(now)
        so_far = {"waited_ns": before.waited_ns, "stolen_ns": before.stolen_ns, "took_ns": before.took_ns}
        journal.write(again=now, by=journal.by, **so_far)
        return before
    journal.write(before=now, by=journal.by, at=time.time())
    return OpenRound([now])


def _sum(before_ns: int | None, own_ns: int | None) -> int | None:
    return None if before_ns is None or own_ns is None else before_ns + own_ns


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
