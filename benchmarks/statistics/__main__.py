"""Do 95% intervals of percentiles hold what they promise? ``python -m benchmarks.statistics [--runs N]``.

Ten processes, 5,000 to 50,000 requests, each interval against the true percentile of the process. A cell is the share
that hold, 92% to 98% being right; in brackets the share of the runs that have no interval ("can't tell"). ``~``: beyond
that by less than two standard errors of this simulation; ``!``: by more; ``?``: from fewer than 50 intervals.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

from benchmarks.statistics.coverage import LENGTHS, cover
from benchmarks.statistics.processes import PROCESSES
from inferbench_tasks.loadgen.statistics import NAMES, intervals


def main() -> None:
    """Print the table, the count of its verdicts, and what an interval costs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=300, help="runs of each process and length")
    runs = parser.parse_args().runs
    print(f"{'process':18}{'requests':>9}  " + "".join(f"{name:15}" for name in NAMES.values()))
    verdicts: Counter[str] = Counter()
    for title, process in PROCESSES.items():
        for n in LENGTHS:
            cells = cover(process, n, runs)
            verdicts.update(cell.verdict for cell in cells.values())
            print(f"{title:18}{n:9,}  " + "".join(f"{cell!s:15}" for cell in cells.values()), flush=True)
    print("cells:", ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    values = PROCESSES["Markov-modulated"](np.random.default_rng(1), LENGTHS[-1])
    start_s = time.process_time()
    for _ in range(20):
        intervals(values)
    print(f"{(time.process_time() - start_s) * 1e3 / 20:.0f} ms of CPU for {LENGTHS[-1]:,} requests")


if __name__ == "__main__":
    main()
