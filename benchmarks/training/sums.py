"""Do a training's times add up, and what do its instruments cost?

    python -m benchmarks.training.sums [--only CASE] [--tries N] [--starts N] [--minutes M] [--rows FILE]

Each case is a real run with a PerfDB of its own, and its figures are those that it stored. Gates, of valid runs alone:

* the phases add up to 97 to 103% of the step;
* of each phase that is a twentieth of the step or more, CPU time and wait for a core of the thread that runs the step
  are 95 to 105% of its wall time, on a CPU and where it waits for nothing else;
* the phases add up to within 5% of the step without instruments, where nothing overlaps;
* in an epoch without instruments ours costs at most 1% more CPU time than a plain loop: epochs of both in turns, with
  the 95% interval of their ratio; above 1% as a whole it has failed, and neither is undecided.

Rows are appended to a file of JSON lines; a case with a valid row of this code and machine is not run again, so that
the same command goes on
where ``--minutes`` ended it; the gates are told as far as they are decided. Each gate has passed, failed, or is
undecided for want of valid runs. Exit 0 only if all have passed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.regression.workplace import workplace
from benchmarks.training.cases import Case
from benchmarks.training.one_run import trained
from benchmarks.training.peers import PAIRS, STARTS
from benchmarks.training.peers import measured as beside_plain
from benchmarks.training.peers import ratio as ratio_of
from benchmarks.training.rows import Row, Rows, any_valid, conditions, due, is_valid, options_of
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.diagnosis import raw
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import TrainingResult

STEP, PHASE, BARE = (0.97, 1.03), (0.95, 1.05), (0.95, 1.05)
INSTRUMENTS = 1.01
#: A phase that is shorter than this share of the step has no share of its own worth looking at.
LEAST_SHARE = 0.05
PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
#: What overlaps, or waits for others: loader processes beside the ranks, ranks that wait for each other.
_APART = "CPU + wait is not asked of it, nor the bare step"
COST = "instruments in the bare epoch"


def cases() -> dict[str, TrainingJob]:
    """By name; small enough for a minute each on two idle cores.

    Epochs of tens of ms scatter by several percent: of many rounds the mean does not.
    """
    jobs: dict[str, dict[str, Any]] = {
        "train": {"data": {"kind": "digits"}, "train": {"batch_size": 64, "rounds": 20}},
        "inference": {"data": {"kind": "digits"}, "train": {"benchmark": "inference", "batch_size": 64, "rounds": 20}},
        "smooth": {
            "data": {"kind": "digits", "samples": 60},
            "train": {"benchmark": "smooth_inference", "batch_size": 32, "rounds": 20},
        },
        "resnet-18": {
            "model": {"name": "resnet-18"},
            "data": {"kind": "dummy", "samples": 112, "image_size": 64},
            "train": {"batch_size": 8, "rounds": 8},
        },
        "jpeg": {
            "model": {"name": "canonical-cnn", "arguments": {"layers": 1, "channels": 8}},
            "data": {"kind": "jpeg", "samples": 112, "image_size": 96},
            "train": {"batch_size": 8, "rounds": 20},
        },
        "two ranks": {
            "data": {"kind": "digits"},
            "train": {"batch_size": 32},
            "devices": {"processes": 2, "strategy": "ddp"},
        },
        "a loader process": {
            "data": {"kind": "digits"},
            "train": {"batch_size": 32},
            "loader": {"workers": 1},
        },
    }  # fmt: skip
    return {
        name: TrainingJob.model_validate({"kind": "training", "name": "sums", **job})
        for name, job in jobs.items()
    }


#: What a short time is spent on first: a training, what the instruments cost, real files; then the others.
ORDER = (*dict.fromkeys(["train", COST, "jpeg", *cases()]),)


def overlaps(job: TrainingJob) -> bool:
    """Whether other processes of the training work while the step does."""
    return job.loader.workers > 0 or job.devices.ranks > 1


def shares(ranks: Sequence[Steps]) -> dict[str, float]:
    """Phase -> CPU time and wait of its own thread by its wall time, over all steps and ranks; long phases only."""
    names = [name.removesuffix("_wall_ns") for name in ranks[0] if name.endswith("_wall_ns")]
    step_ns = sum(float(steps["step_ns"].sum()) for steps in ranks)
    found = {}
    for name in names:
        wall_ns, own_ns = (
            sum(float(steps[f"{name}_{column}"].sum()) for steps in ranks for column in columns)
            for columns in (("wall_ns",), ("own_cpu_ns", "own_wait_ns"))
        )
        if wall_ns >= LEAST_SHARE * step_ns:
            found[name] = own_ns / wall_ns
    return found


def figures_of(result: TrainingResult, ranks: Sequence[Steps], job: TrainingJob) -> Row:
    """What the gates look at; None where it is not asked."""
    summary = result.summary
    if summary is None or not summary.synchronised["phases"]:
        return {"explained": None, "with_clocks": None, "shares": None, "beside_bare": None}
    timing, rate = summary.synchronised, summary.bare["samples_per_s"]
    sum_ms = sum(phase["wall_ms"]["mean"] for phase in timing["phases"].values())
    bare_ms = job.samples_per_step * job.devices.ranks / rate * 1e3 if rate else None
    alone = not overlaps(job)
    step_ms = timing["step_ms"]["mean"]
    return {
        "explained": timing["explained_ratio"],
        "with_clocks": timing["explained_ratio"] + timing["clocks_ms"] / step_ms,
        "step_ms": step_ms,
        "shares": shares(ranks) if alone else None,
        "beside_bare": sum_ms / bare_ms if alone and bare_ms else None,
        "overlaps": not alone,
    }


def row_of(name: str, job: TrainingJob) -> Row:
    """A run, with its verdict."""
    with workplace() as (db, data_dir):
        case = Case(name, "", None, job)
        result = trained(case, job, "sums.1", db, Context(data_dir=data_dir, perfdb_uri=None))
        return {
            "case": name,
            "load": os.getloadavg()[0],
            "verdict": result.verdict.kind,
            "reasons": [reason.check for reason in result.verdict.reasons],
            **figures_of(result, raw.ranks_of(db, result), job),
        }


def cost_row(starts: int) -> Row:
    """CPU time of ours by that of a plain loop, one process at a time."""
    with tempfile.TemporaryDirectory() as folder:
        cpu = ratio_of(beside_plain("fashion-cnn", 1, PAIRS["fashion-cnn"], starts, Path(folder)), 1)
    return {"case": COST, "load": os.getloadavg()[0], "verdict": "valid", "cpu": cpu, "starts": starts}


def gates(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """(what, word, of which runs) of each gate."""
    valid = [row for row in rows if is_valid(row) and row["case"] in cases()]
    alone = [row for row in valid if not row["overlaps"]]
    explained = {row["case"]: [row["explained"]] for row in valid}
    told = [
        _gate("the phases add up to 97-103% of the step", STEP, explained, cases()),
        _gate(
            "CPU + wait is 95-105% of a phase's wall time",
            PHASE,
            {row["case"]: list((row["shares"] or {}).values()) for row in alone},
            _alone(),
        ),
        _gate(
            "the phases add up to within 5% of the bare step",
            BARE,
            {row["case"]: [row["beside_bare"]] for row in alone},
            _alone(),
        ),
    ]  # fmt: skip
    costs = [row["cpu"] for row in rows if row["case"] == COST and "cpu" in row]
    if not costs:
        return [*told, (f"{COST}: at most 1%", UNDECIDED, "it was not run")]
    mean, low, high = costs[-1]
    word = PASSED if high <= INSTRUMENTS else FAILED if low > INSTRUMENTS else UNDECIDED
    return [*told, (f"{COST}: at most 1%", word, f"{mean - 1:+.2%} ({low - 1:+.2%} to {high - 1:+.2%})")]


def _alone() -> list[str]:
    return [name for name, job in cases().items() if not overlaps(job)]


def _gate(
    what: str, bounds: tuple[float, float], of: Mapping[str, Sequence[float | None]], wanted: Any
) -> tuple[str, str, str]:
    """One value beyond its bounds fails; a case without a valid run leaves it undecided."""
    values = {name: [value for value in given if value is not None] for name, given in of.items()}
    beyond = {
        name: [value for value in given if not bounds[0] <= value <= bounds[1]]
        for name, given in values.items()
    }
    if wrong := {name: given for name, given in beyond.items() if given}:
        return (
            what,
            FAILED,
            "; ".join(f"{name} {', '.join(f'{v:.1%}' for v in of)}" for name, of in wrong.items()),
        )
    missing = [name for name in wanted if not values.get(name)]
    return (
        what,
        UNDECIDED if missing else PASSED,
        f"no valid run of {', '.join(missing)}" if missing else "all",
    )


def table(rows: Sequence[Mapping[str, Any]]) -> None:
    """A line for each run."""
    for row in rows:
        if row["case"] == COST:
            continue
        shares_ = ", ".join(f"{name} {of:.1%}" for name, of in (row.get("shares") or {}).items())
        ratios = (row.get("explained"), row.get("with_clocks"), row.get("beside_bare"))
        explained, clocks, bare = ("-" if value is None else f"{value:.1%}" for value in ratios)
        of = f" of {row['step_ms']:.2f} ms" if row.get("step_ms") else ""
        said = row.get("verdict", "failed") + (
            f" ({', '.join(row['reasons'])})" if row.get("reasons") else ""
        )
        why = _APART if row.get("overlaps") else shares_
        print(
            f"{row['case']:18}{said:32} step{of} {explained}, with its clocks' reading {clocks}, bare {bare}; {why}"
        )


def main() -> int:
    """Run what has no valid row yet, then the runs and the gates."""
    parser = options_of(__doc__, "sums")
    parser.add_argument("--only", choices=ORDER)
    parser.add_argument("--starts", type=int, default=STARTS, help="of epochs beside a plain loop's")
    options = parser.parse_args()
    kept = Rows(options.rows, conditions(starts=options.starts))
    kept.say_others()
    plan = [name for name in ORDER if options.only in (None, name)]
    for name in due(plan, kept, lambda work, row: row["case"] == work, options, _decided):
        row = cost_row(options.starts) if name == COST else row_of(name, cases()[name])
        kept.add(row)
        print(f"{name}: {row['verdict']}", file=sys.stderr, flush=True)
    rows = kept.read()
    table(rows)
    told = gates(rows)
    for what, word, of in told:
        print(f"{word:10} {what}: {of}")
    return 0 if all(word == PASSED for _, word, _ in told) else 1


def _decided(rows: Sequence[Row]) -> bool:
    """Whether one of a case's runs is valid; of the cost whether one interval lies on one side of its bound."""
    costs = [row["cpu"] for row in rows if row["case"] == COST]
    return (
        any(high <= INSTRUMENTS or low > INSTRUMENTS for _, low, high in costs) if costs else any_valid(rows)
    )


if __name__ == "__main__":
    raise SystemExit(main())
