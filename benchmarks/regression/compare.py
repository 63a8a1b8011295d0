"""False alarms and detection of four rules on the same nights.

    pip install --no-deps apache-otava==0.8.0
    python -m benchmarks.regression.compare [--series 40] [--only recorded --recorded FILE]

A series has 30 nights; the shift comes in night 15. A *false alarm* is any alarm before the shift, or any at all
where there is none; it is counted per 100 nights. A *detection* is an alarm in the right direction
within 10 nights after the shift. A rule that alarms all the time "detects" everything by chance: so beside
the detection stands the *informed* one, detection minus the chance of an alarm in that direction in ten nights
without a shift.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.regression.noise import RECORDED, SYNTHETIC, Night, drawn, recorded, shifted
from benchmarks.regression.rivals import RULES, Alarm

NIGHTS, AT, WITHIN = 30, 15, 10
SHIFTS = (0.01, 0.03, 0.06, 0.10)
FIGURES = ("p50_ms", "mean_ms", "p95_ms")


def detected(alarms: Iterable[Alarm]) -> bool:
    """Whether the shift was found: slower, in the nights after it."""
    return any(direction > 0 and AT <= night < AT + WITHIN for night, direction in alarms)


def table(name: str, series: list[list[Night]], rules: Sequence[str], pool: Executor) -> Iterator[str]:
    """A row per rule: false alarms per 100 nights, then detection per shift, raw and informed."""
    for rule in rules:
        unchanged = list(pool.map(RULES[rule], series))
        false = 100 * sum(map(len, unchanged)) / sum(map(len, series))
        chance = float(np.mean([detected(alarms) for alarms in unchanged]))
        cells = []
        for shift in SHIFTS:
            alarm_lists = pool.map(RULES[rule], [shifted(nights, AT, shift) for nights in series])
            share = float(np.mean([detected(alarms) for alarms in alarm_lists]))
            cells.append(f"{share:4.0%} ({max(0.0, share - chance):4.0%})")
        yield f"| {name} | {rule} | {false:.2f} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=40, help="series per kind of noise")
    parser.add_argument("--only", choices=("synthetic", "recorded"), help="one part of the table")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help="a file of record.py")
    parser.add_argument("--rules", nargs="*", choices=list(RULES), default=list(RULES), help="all by default")
    parser.add_argument(
        "--seed", type=int, default=7, help="of the noise; judge a changed rule by fresh ones"
    )
    options = parser.parse_args()
    print("| noise | rule | false alarms / 100 nights | " + " | ".join(f"{s:.0%}" for s in SHIFTS) + " |")
    print("|---|---|---|" + "---|" * len(SHIFTS))
    with ProcessPoolExecutor() as pool:
        for name, make in SYNTHETIC.items() if options.only != "recorded" else ():
            rng = np.random.default_rng(options.seed)
            for row in table(name, [make(rng, NIGHTS) for _ in range(options.series)], options.rules, pool):
                print(row, flush=True)
        if options.recorded.exists() and options.only != "synthetic":
            for figure in FIGURES:
                rng = np.random.default_rng(options.seed)
                nights = recorded(figure, options.recorded)
                series = [drawn(nights, rng, NIGHTS) for _ in range(options.series)]
                for row in table(f"recorded, {figure}", series, options.rules, pool):
                    print(row, flush=True)
                alarms = {rule: len(RULES[rule](nights)) for rule in options.rules}
                print(
                    f"<!-- {figure}: alarms in the {len(nights)} recorded nights as they were: {alarms} -->"
                )


if __name__ == "__main__":
    main()
