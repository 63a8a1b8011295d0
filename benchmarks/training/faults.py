"""Does the diagnosis of a training name what was really done to it?

    python -m benchmarks.training.faults [--quick] [--only FAULT] [--verify] [--tries N] [--minutes M] [--rows FILE]

Faults are injected for real, each at three strengths, in three parts, each in a seeded random order with clean runs
among them: the middle strength of each first, then the weakest, then the strongest, so that a short time tells of every
fault something. Each run has a process and a PerfDB of its own. Rows are appended to a file of JSON lines, and what has
a valid row there, of this code and machine, is not run again: after ``--minutes`` the gates are told as far as they are
decided, and the same command goes on. A run that the certificate calls disturbed or invalid is kept as it is, and tried
again up to ``--tries`` times in all. ``--quick``: the first part alone. Needs root: cgroups, loopback, a disk.

Gates: the right cause first in 95% of the valid runs with a fault, none in valid clean runs, none in any run that is
not valid; with ``--verify`` the step after the remedy within 15% of the predicted one in 9 of 10. A gate without any
run is not decided, and fails as well: exit 1.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import defaultdict

from benchmarks.training.cases import NOT_HERE, Case, cases, clean
from benchmarks.training.rows import Row, Rows, conditions, due, is_valid, options_of

CLEAN_RUNS, QUICK_CLEAN_RUNS = 20, 4
#: Strengths in the order of their parts: the middle one, the weakest, the strongest.
PARTS = (1, 0, 2)
RIGHT, WITHIN, WITHIN_RATIO = 0.95, 0.9, 0.15
#: A run takes a minute or two; one that takes so long hangs.
PATIENCE_S = 900.0


def planned(quick: bool, only: str | None, seed: int) -> list[tuple[int, Case]]:
    """Cases with their number among equal ones: the part of the middle strengths, of the weakest, of the strongest."""
    faults, kinds, chance = cases(), clean(), random.Random(seed)
    of_fault = [[case for case in faults if case.fault == fault] for fault in _names(faults)]
    unharmed = [(n // len(kinds), kinds[n % len(kinds)]) for n in range(CLEAN_RUNS)]
    ends = (QUICK_CLEAN_RUNS, (QUICK_CLEAN_RUNS + CLEAN_RUNS) // 2, CLEAN_RUNS)
    plan: list[tuple[int, Case]] = []
    start = 0
    for strength, end in zip(PARTS[:1] if quick else PARTS, ends, strict=False):
        part = [(0, strengths[strength]) for strengths in of_fault] + unharmed[start:end]
        chance.shuffle(part)
        plan += part
        start = end
    return [(number, case) for number, case in plan if only in (None, case.fault)]


def run_case(case: Case, verify: bool) -> Row:
    """A row; of a run that failed, or took longer than it can, with its end."""
    command = [sys.executable, "-m", "benchmarks.training.one_run", case.name, *(["--verify"] * verify)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            out, errors = running.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            running.terminate()  # it ends its training, and takes the fault and its PerfDB away
            out, errors = running.communicate()
            errors = f"no end within {PATIENCE_S:g} s\n{errors}"
    if running.returncode:
        return {"case": case.name, "rule": case.rule, "failed": errors[-2000:]}
    row: Row = json.loads(out.splitlines()[-1])
    return row


def table(rows: list[Row]) -> None:
    """A line for each case: what was named first how often, of valid runs, and what became of the others."""
    of: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of[row["case"]].append(row)
    print(
        f"{'fault/strength':30}{'should be':13}{'named first':22}{'right':>7}{'not valid':>11}  remedy: pred./meas."
    )
    for case in [*cases(), *clean()]:
        if not (mine := of.get(case.name)):
            continue
        valid = [row for row in mine if is_valid(row)]
        named = ", ".join(sorted({str(row["named"]) for row in valid})) or "-"
        right = sum(row["named"] == case.rule for row in valid)
        reasons = {reason for row in mine if not is_valid(row) for reason in _why(row)}
        ratios = ", ".join(f"{ratio:.2f}" for row in valid if (ratio := _ratio(row)) is not None)
        print(f"{case.name:30}{case.rule or 'none':13}{named:22}{f'{right}/{len(valid)}':>7}"
              f"{len(mine) - len(valid):>11}  {ratios} {', '.join(sorted(reasons))}")  # fmt: skip
    for fault, why in NOT_HERE.items():
        print(f"{fault:30}not run here: {why}")


def gates(rows: list[Row]) -> bool:
    """Print each; whether all hold."""
    valid = [row for row in rows if is_valid(row)]
    faults = [row for row in valid if row["rule"]]
    ratios = [ratio for row in valid if (ratio := _ratio(row)) is not None]
    others = [row for row in rows if "verdict" in row and not is_valid(row)]
    shares = [
        (f"right cause first ({RIGHT:.0%})", [row["named"] == row["rule"] for row in faults], RIGHT),
        ("no cause in clean runs (100%)", [row["named"] is None for row in valid if not row["rule"]], 1.0),
        ("no cause in runs that are not valid (100%)", [row["named"] is None for row in others], 1.0),
    ]
    if any("verified" in row for row in rows):
        within = [abs(ratio - 1) <= WITHIN_RATIO for ratio in ratios]
        shares.append((f"step after the remedy within {WITHIN_RATIO:.0%} ({WITHIN:.0%})", within, WITHIN))
    for text, held, bound in shares:
        word = "NOT DECIDED" if not held else "ok" if sum(held) >= bound * len(held) else "FAILED"
        print(f"{word:12}{text}: {sum(held)} of {len(held)}")
    ran = {row["case"] for row in rows if "verdict" in row}
    broken = [row["case"] for row in rows if "verdict" not in row and row["case"] not in ran]
    if broken:
        print(f"{'FAILED':12}not run: {', '.join(sorted(set(broken)))}")
    # Nothing is disturbed on a quiet machine: that gate may be without runs.
    decided = all(held or "not valid" in text for text, held, _ in shares)
    return decided and not broken and all(sum(held) >= bound * len(held) for _, held, bound in shares)


def _key(row: Row) -> tuple[int, str]:
    return row["number"], row["case"]


def _why(row: Row) -> list[str]:
    if "verdict" in row:
        return list(row["reasons"])
    return [row["impossible"]] if "impossible" in row else ["failed: see the rows"]


def _ratio(row: Row) -> float | None:
    ratio: float | None = (row.get("verified") or {}).get("predicted_by_measured")
    return ratio


def _names(faults: list[Case]) -> list[str]:
    return list(dict.fromkeys(case.fault for case in faults))


def main() -> None:
    """Run what has no valid row yet, then the table and the gates of all rows."""
    parser = options_of(__doc__, "faults")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=[*_names(cases()), "clean"])
    parser.add_argument("--verify", action="store_true", help="run each remedy under its fault")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kept = Rows(options.rows, conditions(verify=options.verify))
    kept.say_others()
    plan = planned(options.quick, options.only, options.seed)
    for number, case in due(plan, kept, lambda work, row: _key(row) == (work[0], work[1].name), options):
        row = run_case(case, options.verify) | {"number": number}
        kept.add(row)
        what = row.get("named") or "no cause" if "verdict" in row else ", ".join(_why(row))
        print(f"{case.name}: {row.get('verdict', '')} {what}", file=sys.stderr, flush=True)
    wanted = {(number, case.name) for number, case in plan}
    rows = [row for row in kept.read() if _key(row) in wanted]
    table(rows)
    raise SystemExit(0 if gates(rows) else 1)


if __name__ == "__main__":
    main()
