"""How far estimates of bricks that were never measured are off, by what PerfDB has of this machine.

    python -m benchmarks.bricks.unseen [--threads 1] [--device TEXT] [--rows FILE]

Measure some families of models first (``inferbench bricks predict resnet50 mobilenet_v2 ...``, or a submission of kind
bricks). Then a row for each family: all of its bricks are estimated by those that are in none of its models, and added
up; estimated over measured, and how far its bricks are off in the median. Below it the mean absolute error of the sums.

``--rows`` keeps a row per family with machine and versions. Nothing is measured, so there is no ``--minutes``. Exit
code 1 where the error is above 15%, 2 where there are too few bricks or families to say.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.bricks import rows as raw_rows
from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.estimates import FEWEST_BRICKS, FEWEST_FAMILIES, by_family, known_bricks
from inferbench_tasks.brick_jobs.queries import setting_of, settings_of
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.perfdb.store import PerfDB

GATE_RATIO, MODELS = 0.15, 1_000


def main() -> int:
    """Read what is stored, hold each family back; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="")
    parser.add_argument("--rows", type=Path, default=Path("build/unseen.parquet"))
    options = parser.parse_args()
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        rows = [row for row in settings_of(db, options.device) if row["threads"] == options.threads]
        if not rows:
            print("not judged: nothing was measured with so many threads")
            return 2
        results = PerfDBResults(db, setting_of(db, rows[0]["setting_id"]))
        cuts = results.measured_cuts(MODELS)
        every = {work["identity"] for cut in cuts for work in cut["work"]}
        known = known_bricks(cuts, results.get_many(every))
    print(f"{results.setting.processor}, {results.setting.runtime}: {len(known)} measured bricks")
    found = by_family(known)
    of = {**raw_rows.where("scikit-learn"), **results.setting.model_dump(mode="json")}
    raw_rows.write(options.rows, [{**of, **asdict(row)} for row in found])
    print(f"{'family':<20}{'bricks':>8}{'estimated / measured':>23}{'bricks off (median)':>22}")
    for row in found:
        print(f"{row.family:<20}{row.bricks:>8}{row.ratio:>23.2f}{row.median_ratio:>22.0%}")
    if len(found) < FEWEST_FAMILIES:
        print(
            f"not judged: at least {FEWEST_FAMILIES} families and {FEWEST_BRICKS} bricks beside each are needed"
        )
        return 2
    error = statistics.fmean(abs(row.ratio - 1) for row in found)
    held = error <= GATE_RATIO
    print(
        f"mean absolute error of {len(found)} families: {error:.1%}, allowed are {GATE_RATIO:.0%}: "
        + ("passed" if held else "failed")
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
