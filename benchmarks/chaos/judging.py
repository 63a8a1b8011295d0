"""What must hold after a round of chaos over hosts, and after all rounds. It reads what was seen, and does nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Of all jobs of all rounds. A fault takes one host of several, for a while, and its job is to be run again.
MOST_FAILED_RATIO = 0.1
#: Of the loss at the end of a training: of the same samples in the same order it differs by the order of additions.
LOSS_TOLERANCE_RATIO = 0.05
ENDED_ONCE = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Measured:
    """A result with figures. ``requests``: in it, answered or not, ``loss``: at its end; None of what has none.
    ``answers``: which of the labelled samples were answered right, and of which samples; "" where nobody asked.
    """

    job: str
    verdict: str
    requests: int | None = None
    error_ratio: float = 0.0
    answers: str = ""
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Of a job, as PerfDB has it at the end. ``cause``: of its failure, with its stage."""

    job: str
    status: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What the same work gave without a fault. ``requests``: of each of its loads."""

    jobs: int
    requests: int | None
    answers: frozenset[str] = frozenset()
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """How a round ended: Airflow's word (``state``), PerfDB's, and what is left on any host."""

    state: str
    measured: tuple[Measured, ...]
    runs: tuple[Run, ...]
    left: tuple[str, ...] = ()

    @property
    def failed(self) -> list[Run]:
        """The jobs that did not come to a result."""
        return [run for run in self.runs if run.status in ("failed", "cancelled")]


def never_ended(row: Mapping[str, Any], jobs: int, why: str) -> dict[str, Any]:
    """The row of a round whose jobs did not come to an end: the worst that a fault can do, whatever it met. ``why``:
    what was seen of them."""
    wrong = [f"did not end: {why[:500]}"]
    left = {"met": True, "state": "running", "jobs": jobs, "results": 0, "failed": [], "wrong": wrong}
    return {"host": "", "wait_s": 0.0, "done": "", "ended_s": 0.0, **left, **row}


def wrong(seen: Round, known: Undisturbed, explains: str) -> list[str]:
    """What does not hold. ``explains``: a pattern of causes that this fault may have; "" where a job may not fail."""
    return [
        *(said for one in seen.measured for said in _false(one, known)),
        *_not_once(seen, known),
        *_unexplained(seen, explains),
        *seen.left,
    ]


def _false(one: Measured, known: Undisturbed) -> list[str]:
    found = []
    # Disturbed is what had others beside it; it is shown as a figure all the same, so that none of it may be lost.
    if one.verdict in ("valid", "disturbed") and one.requests != known.requests:
        found.append(
            f"{one.job}: {one.verdict} with {one.requests} requests, {known.requests} were to be sent"
        )
    if one.verdict == "valid" and one.error_ratio:
        found.append(f"{one.job}: valid, and {one.error_ratio:.1%} of its requests failed")
    if known.answers and not one.answers:
        found.append(f"{one.job}: measured, and its answers were not looked at")
    elif known.answers and one.answers not in known.answers:
        found.append(f"{one.job}: answers are others than without a fault: {one.answers}")
    if known.loss is not None:
        if one.loss is None:
            found.append(f"{one.job}: measured, and without a loss")
        elif not abs(one.loss - known.loss) <= LOSS_TOLERANCE_RATIO * abs(known.loss):
            found.append(f"{one.job}: a loss of {one.loss:.4g}, without a fault {known.loss:.4g}")
    return found


def _not_once(seen: Round, known: Undisturbed) -> list[str]:
    found, jobs = [], [one.job for one in seen.measured]
    if twice := [job for job, count in Counter(jobs).items() if count > 1]:
        found.append(f"several results of {', '.join(twice)}")
    if under_way := [run.job for run in seen.runs if run.status not in ENDED_ONCE]:
        found.append(f"not ended: {', '.join(under_way)}")
    if both := [run.job for run in seen.failed if run.job in jobs]:
        found.append(f"failed, with a result: {', '.join(both)}")
    if seen.state == "success" and len(set(jobs)) != known.jobs:
        found.append(f"success with results of {len(set(jobs))} of {known.jobs} job(s)")
    if seen.state != "success" and len(set(jobs)) >= known.jobs:
        found.append(f"{seen.state} with results of all jobs")
    return found


def _unexplained(seen: Round, explains: str) -> list[str]:
    if seen.state != "success" and not seen.failed:
        return [f"{seen.state}, and no run in PerfDB says why"]
    return [
        f"{run.job} failed, which this fault does not explain: {run.cause[:300]}"
        for run in seen.failed
        if not explains or not re.search(explains, run.cause, re.IGNORECASE)
    ]


def afterwards(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What does not hold of all rounds together."""
    if not rows:
        return ["no round was done"]
    found = []
    if bad := [row for row in rows if row["wrong"]]:
        found.append(f"{len(bad)} of {len(rows)} rounds after which something did not hold")
    jobs, failed = sum(row["jobs"] for row in rows), sum(len(row["failed"]) for row in rows)
    if failed > MOST_FAILED_RATIO * jobs:
        found.append(f"{failed} of {jobs} jobs failed; {MOST_FAILED_RATIO:.0%} may at most")
    for kind, of in _by_kind(rows).items():
        met = [row for row in of if row["met"]]
        if not met:
            found.append(f"{kind}: no job met it in {len(of)} round(s)")
        elif len(met) > 1 and all(row["failed"] for row in met):
            found.append(f"{kind}: jobs failed in each of {len(met)} rounds")
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """In Markdown: of each kind of fault what became of it; seeds and counts below. Rounds that met no job count as
    none."""
    lines = ["| fault | rounds | amid | jobs | failed | did not hold |", "|---|---|---|---|---|---|"]
    counted = [row for row in rows if row["met"]]
    for kind, of in _by_kind(counted).items():
        works = ", ".join(f"{work} {count}" for work, count in sorted(Counter(r["work"] for r in of).items()))
        causes = Counter(cause for row in of for cause in row["failed"])
        failed = "; ".join(f"{count} ({cause[:80]})" for cause, count in causes.items()) or "0"
        bad = sum(bool(row["wrong"]) for row in of)
        jobs = sum(row["jobs"] for row in of)
        lines.append(f"| {kind} | {len(of)} | {works} | {jobs} | {_cell(failed)} | {bad} |")
    seeds = ", ".join(str(seed) for seed in sorted({row["seed"] for row in rows}))
    missed = len(rows) - len(counted)
    lines += ["", f"Seeds {seeds}: {len(counted)} faults; {missed} more that no job met are not counted."]
    return "\n".join(lines)


def _by_kind(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["fault"], []).append(row)
    return kinds


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
