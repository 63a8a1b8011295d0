"""Is a rank at 80% of its speed found within 50 steps, and none in clean runs?

    python -m benchmarks.training.straggler [--runs 20] [--tries N] [--minutes M] [--rows FILE]

Two ranks, each on a core of its own; in every second run rank 1 is stopped for a fifth of its time, from before its
first step on. A run has 48 measured steps, so that what is named is named within 50. Clean runs and held ones in turns:
however long it ran, both gates have runs. Rows are appended to a file of JSON lines; a case with a valid row of this
code and machine is not run again.
Gates, of valid runs alone: ``straggler`` first, with the rank that was held, in all of them; in no clean one.
Exit 0 only if both have all their runs and hold.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.regression.workplace import workplace
from benchmarks.training import injections
from benchmarks.training.cases import Case
from benchmarks.training.one_run import trained
from benchmarks.training.rows import Row, Rows, conditions, due, is_valid, options_of
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.diagnosis import measured, raw
from inferbench_tasks.training.job import TrainingJob

RULE, HELD, CLEAN = "straggler", "held back", "clean"
#: Of its time rank 1 is stopped so much: it runs at 80%.
STOPPED, HELD_RANK = 0.2, 1
MOST_STEPS = 50
#: 16 steps of each of three rounds; a network of few parameters, whose exchange costs nothing beside it.
JOB = TrainingJob.model_validate(
    {
        "kind": "training",
        "name": "straggler",
        "model": {"name": "fashion-cnn"},
        "data": {"kind": "digits", "image_size": 28, "where": "memory"},
        "train": {"batch_size": 32, "max_steps": 19, "warmup_steps": 3, "rounds": 3},
        "devices": {"processes": 2, "strategy": "ddp", "cores": 1},
    }
)


def planned(runs: int) -> list[tuple[str, int]]:
    """(what is done to it, number) of each run, in turns."""
    return [(kind, number) for number in range(runs) for kind in (HELD, CLEAN)]


def row_of(kind: str, number: int) -> Row:
    """A run with a PerfDB of its own, with all causes that were named of it."""
    held = partial(injections.rank_held_back, share=STOPPED)
    case = Case(kind, "", RULE, JOB, held if kind == HELD else injections.nothing)
    with workplace() as (db, data_dir):
        result = trained(case, JOB, "straggler.1", db, Context(data_dir=data_dir, perfdb_uri=None))
        diagnosis = measured.diagnose(result, raw.ranks_of(db, result))
    named = [cause for cause in diagnosis.causes if cause.kind == "cause"]
    return {
        "case": kind,
        "number": number,
        "load": os.getloadavg()[0],
        "steps": result.summary.synchronised["steps"] if result.summary else 0,
        "verdict": result.verdict.kind,
        "reasons": [reason.check for reason in result.verdict.reasons],
        "named": [cause.rule for cause in named],
        "rank": named[0].rank if named else None,
        "sentence": diagnosis.sentence,
    }


def gates(rows: Sequence[Mapping[str, Any]], runs: int) -> list[tuple[str, str, str]]:
    """(word, what, of how many) of each gate: passed, FAILED, or undecided while runs are missing."""
    told = []
    for kind, what in (
        (HELD, f"a rank at {1 - STOPPED:.0%} is found within {MOST_STEPS} steps"),
        (CLEAN, "no straggler in clean runs"),
    ):
        valid = [row for row in rows if row["case"] == kind and is_valid(row)]
        right = [
            row["named"][:1] == [RULE] and row["rank"] == HELD_RANK and row["steps"] <= MOST_STEPS
            for row in valid
        ]
        if kind == CLEAN:
            right = [RULE not in row["named"] for row in valid]
        word = "FAILED" if not all(right) else "passed" if len(right) >= runs else "undecided"
        told.append((word, what, f"{sum(right)} of {len(right)} valid runs, of {runs} wanted"))
    return told


def main() -> int:
    """Run what has no valid row yet, then the gates as far as they are decided."""
    parser = options_of(__doc__, "straggler")
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("two ranks on cores of their own need two cores")
    kept = Rows(options.rows, conditions())
    kept.say_others()
    plan = planned(options.runs)
    for kind, number in due(plan, kept, lambda work, row: (row["case"], row["number"]) == work, options):
        row = row_of(kind, number)
        kept.add(row)
        said = ", ".join(row["named"]) or "no cause"
        print(f"{kind} {number}: {row['verdict']} {said}", file=sys.stderr, flush=True)
    told = gates(kept.read(), options.runs)
    for word, what, of in told:
        print(f"{word:10} {what}: {of}")
    return 0 if all(word == "passed" for word, _, _ in told) else 1


if __name__ == "__main__":
    raise SystemExit(main())
