"""The twelve gates of the scheduler: ``python -m benchmarks.scheduling [--seeds 100-105] [--gates 1,2] [--held-out]``.

Prints every figure with its bound and ends with 1 if one fails. ``--held-out`` takes other seeds and every length mix
there is (uniform, exponential, bimodal, log-normal), so that a policy tuned to the usual rows would be found out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.scheduling.gates import GATES, Check, Setting
from benchmarks.scheduling.speed import measure, quantile


def speed(setting: Setting) -> list[Check]:
    """12: 100,000 queued jobs, 1,000 devices, 1,000 tenants; the median of three indexes."""
    found = [measure(seed) for seed in list(setting.seeds)[:3]]
    middle = len(found) // 2
    p99 = sorted(quantile(s.decide_s, 0.99) for s in found)[middle]
    fill = sorted(s.fill_s for s in found)[middle]
    add = sorted(sum(s.add_s) / len(s.add_s) for s in found)[middle]
    return [
        Check(12, "decision p99 [ms]", p99 * 1e3, 1.0, at_most=True),
        Check(12, "filling 1,000 devices [ms]", fill * 1e3, 300.0, at_most=True),
        Check(12, "adding a job, mean [us]", add * 1e6, 10.0, at_most=True),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default=None, help="FIRST-LAST [100-105; held out: 900-905]")
    parser.add_argument("--gates", default=None, help="numbers, with commas [all]")
    parser.add_argument("--held-out", action="store_true", help="other seeds, all length mixes")
    parser.add_argument("--json", default=None, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args()
    first, _, last = (options.seeds or ("900-905" if options.held_out else "100-105")).partition("-")
    seeds = range(int(first), int(last or first) + 1)
    setting = Setting(seeds)
    if options.held_out:
        setting = Setting(seeds, ("A1", "A2", "A3", "A4"), ("B1", "B2", "B3", "B4", "C1"))
    gates = {**GATES, 12: speed}
    chosen = [int(n) for n in options.gates.split(",")] if options.gates else list(gates)
    checks: list[Check] = []
    for number in chosen:
        start = time.monotonic()
        for check in gates[number](setting):
            sign = "<=" if check.at_most else ">="
            verdict = "pass" if check.passed else "FAIL"
            print(
                f"{verdict}  {check.gate:>2}  {check.value:9.3f} {sign} {check.bound:<7g} {check.what}",
                flush=True,
            )
            checks.append(check)
        print(f"          gate {number}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    failed = sum(not check.passed for check in checks)
    print(f"{len(checks) - failed} of {len(checks)} figures hold, seeds {seeds[0]}-{seeds[-1]}")
    if options.json:
        rows = [{"gate": c.gate, "what": c.what, "value": c.value, "bound": c.bound} for c in checks]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
