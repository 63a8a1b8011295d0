"""Faults of hosts and of the network between them, one after the other, amid jobs; then what must hold is checked.

    python -m benchmarks.chaos.hosts [--faults 50] [--hosts 2] [--minutes M] [--seed 1] [--only FAULT] [--rows FILE]
    python -m benchmarks.chaos.hosts --table FILE

A leader and hosts that joined it by tokens, each a network namespace with an address, a clock, a core and a data
directory of its own (a file system of 1 GB). First everything is done once without a fault, to know what comes of it.
Then, in each round, something is submitted (a sweep of two jobs, a load from the other host, a training on two hosts,
with nginx replicas on two hosts, with three hosts a load from two of them), something happens to a host at a random
moment of it, or to what it uses just before, and once that is over the job has to come to its end: exactly once, with
one result for each job that succeeded and none for one that did not, every request that was to be sent in it, every
sample answered as it was without a fault (a training: the same loss); no lease, no server and no rank left on any host.
A job may fail where its fault explains the cause, and few may (``judging``): most are to be run again.

Kinds of faults come in turns, each time in another order. A round whose jobs did not meet its fault (they had ended,
the host had none) counts as none. A row for each is appended to a file of JSON lines as it ends; ``--table`` makes the
table of the records out of such a file. Ends with 1 where something did not hold, with 2 where nothing could be done.
Needs root. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.fault import Amid
from benchmarks.chaos.host_faults import KINDS, holds_lease, missing
from benchmarks.chaos.judging import Undisturbed, afterwards, never_ended, table, wrong
from benchmarks.chaos.seen import seen, used
from benchmarks.chaos.work import RATE_RPS, SECONDS, WORK, dag, possible, quiet
from tests.joined_hosts import Joined, JoinedHost, joined_hosts

NAMES = ("host-a", "host-b", "host-c", "host-d")
HOST_BYTES = "1g"
#: A job that is run again may look failed for a moment.
SETTLED_S = 8.0
#: Of labelled digits the model names nine of ten; what answers less without a fault can't tell right from wrong.
LEAST_ACCURACY_RATIO = 0.8


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=2, choices=range(2, len(NAMES) + 1))
    parser.add_argument("--minutes", type=float, help="begin no round after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, action="append", help="these kinds alone (repeat it)")
    parser.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "chaos-hosts.jsonl")
    parser.add_argument("--table", type=Path, help="print the table of such a file, and do nothing else")
    parser.add_argument("--keep", type=Path, help="a new folder for data and logs, kept afterwards")
    given = parser.parse_args()
    if given.table:
        rows = [json.loads(line) for line in given.table.read_text().splitlines()]
        print(table(rows))
        return _said(afterwards(rows))
    rng, names = random.Random(given.seed), NAMES[: given.hosts]
    works = possible(given.hosts)
    plan = planned(given.only or list(KINDS), works, given.faults, rng)
    for name in sorted({name for name, _ in plan}):
        if reason := missing(name):
            print(f"{name}: not done here, it {reason}")
    plan = [(name, work) for name, work in plan if not missing(name)]
    started_s, rows = time.monotonic(), []
    with ExitStack() as stack:
        folder = given.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-hosts-"))
        base = Path(folder)
        base.mkdir(exist_ok=True)
        stack.enter_context(own_disks(base, names))

        def write(submissions: Path) -> None:
            for name, work in [(quiet(work), work) for work in works] + [
                (dag(at), work) for at, (_, work) in enumerate(plan)
            ]:
                (submissions / f"{name}.yaml").write_text(f"name: {name}\n{WORK[work].text}")

        try:
            joined = stack.enter_context(joined_hosts(base, names, write))
        except pytest.skip.Exception as reason:
            print(f"not done here: {reason}")
            return 2
        known = {work: undisturbed(joined, work) for work in sorted({work for _, work in plan})}
        for at, (name, work) in enumerate(plan):
            if given.minutes and time.monotonic() - started_s > 60 * given.minutes:
                break
            row = {"seed": given.seed, "at": at, "fault": name, "work": work}
            try:
                row |= fault(joined, at, name, work, rng, *known[work])
            except NeverEnded as error:  # jobs still under way: no later round could be told from them
                row = never_ended(row, WORK[work].jobs, str(error))
            rows.append(row)
            with given.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(said(row), flush=True)
            if row["state"] == "running":
                break
    print(table(rows))
    print(f"seed {given.seed}: {len(rows)} of {len(plan)} rounds")
    return _said(afterwards(rows))


def _said(reasons: Sequence[str]) -> int:
    for reason in reasons:
        print(f"WRONG: {reason}")
    return 1 if reasons else 0


def planned(
    kinds: Sequence[str], works: Sequence[str], count: int, rng: random.Random
) -> list[tuple[str, str]]:
    """Kind and what runs meanwhile, of each round."""
    plan: list[tuple[str, str]] = []
    while len(plan) < count:
        plan += [(name, rng.choice(works)) for name in rng.sample(list(kinds), len(kinds))]
    return plan[:count]


def said(row: dict[str, Any]) -> str:
    """A line for who looks on."""
    word = "; ".join(row["wrong"]) if row["wrong"] else "ok"
    met = "" if row["met"] else "(met by no job) "
    return (
        f"{row['at']:3} {row['fault']:16} {row['work']:9} {row['done']:60} {row['state']:8} {row['results']} of "
        f"{row['jobs']} result(s) after {row['ended_s']:5.0f} s: {met}{word}"
    )


def undisturbed(joined: Joined, work: str) -> tuple[Undisturbed, frozenset[str]]:
    """What comes of it without a fault, and which artifacts its jobs use; AssertionError where that proves nothing."""
    run = joined.driver.trigger(quiet(work))
    state = ended(joined, run)
    found = seen(joined, quiet(work), work, state)
    jobs = WORK[work].jobs
    assert state == "success" and len(found.measured) == jobs, f"{work}, without a fault: {found}"
    if work == "training":
        loss = found.measured[0].loss
        assert loss is not None, "a training without a fault has no loss"
        return Undisturbed(jobs, None, loss=loss), used(joined, quiet(work))
    for result in joined.driver.results(quiet(work)):
        ratio = result.summary.accuracy_ratio
        assert ratio is not None and ratio >= LEAST_ACCURACY_RATIO, (
            f"{work}, without a fault: accuracy {ratio}"
        )
    answers = frozenset(one.answers for one in found.measured)
    return Undisturbed(jobs, RATE_RPS * SECONDS, answers), used(joined, quiet(work))


def fault(
    joined: Joined,
    at: int,
    name: str,
    work: str,
    rng: random.Random,
    known: Undisturbed,
    digests: frozenset[str],
) -> dict[str, Any]:
    """One round: what was done, how the jobs ended, and what did not hold."""
    kind, host, began_s = KINDS[name], rng.choice(joined.hosts), time.monotonic()
    since, wait_s, amid_job = joined.driver.db.now(), 0.0, True
    with ExitStack() as stack:
        if kind.ready:
            stack.enter_context(kind.ready(joined, host))
        if kind.first:
            done = stack.enter_context(kind.does(Amid(joined, host, rng, digests, since)))
        run = joined.driver.trigger(dag(at))
        if not kind.first:
            joined.driver.until(lambda: begun(joined, run), "nothing began", 120)
            wait_s = rng.uniform(0, 12)
            time.sleep(wait_s)
            host = host if kind.ready else working(joined, rng) or host
            amid_job = joined.driver.state(run) not in ("success", "failed")
            done = stack.enter_context(kind.does(Amid(joined, host, rng, digests, since)))
        state = ended(joined, run)
        met = amid_job and done.met()
    ended_s = time.monotonic() - began_s
    found = seen(joined, dag(at), work, state)
    return {
        "host": host.name, "wait_s": wait_s, "done": done.words, "met": met, "state": state, "jobs": known.jobs,
        "results": len(found.measured), "failed": [one.cause for one in found.failed], "ended_s": ended_s,
        "wrong": wrong(found, known, kind.explains),
    }  # fmt: skip


def working(joined: Joined, rng: random.Random) -> JoinedHost | None:
    """One of the hosts that a job holds a device of."""
    hosts = [host for host in joined.hosts if holds_lease(joined, host)]
    return rng.choice(hosts) if hosts else None


def begun(joined: Joined, run: str) -> bool:
    """Whether a stage of it runs, or ran."""
    found = joined.driver.api("GET", f"{run}/taskInstances").json()["task_instances"]
    return any(task["state"] in ("running", "success") for task in found)


class NeverEnded(AssertionError):
    """Jobs are under way long after whatever was done to them."""


def ended(joined: Joined, run: str) -> str:
    """Its state once it stays so. NeverEnded."""
    while True:
        try:
            (state,) = joined.driver.ended(run, timeout_s=600)
        except AssertionError as error:
            raise NeverEnded(str(error)) from error
        time.sleep(SETTLED_S)
        if joined.driver.state(run) == state:
            return state


@contextmanager
def own_disks(base: Path, names: Sequence[str]) -> Iterator[None]:
    """A small file system for each host's data directory."""
    mounted: list[Path] = []
    try:
        for name in names:
            (base / name).mkdir()
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={HOST_BYTES},mode=0700", "tmpfs", str(base / name)],
                check=True,
            )
            mounted.append(base / name)
        yield
    finally:
        for path in mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False)


if __name__ == "__main__":
    sys.exit(main())
