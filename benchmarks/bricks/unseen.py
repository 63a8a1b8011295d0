"""How far estimates of bricks that were never measured are off, by what PerfDB has of this machine: gate 3.

    python -m benchmarks.bricks.unseen [--threads 1] [--device TEXT] [--rows FILE]

Measure some families of models first (``inferbench bricks predict resnet50 mobilenet_v2 ...``, or a submission of kind
bricks). Then:

* a row for each family: all of its bricks are estimated by those that are in none of its models, and added up, each as
  often as it stands in these; estimated over measured, and how far its bricks are off in the median;
* a row for each model that was measured as a whole: what is predicted of it, over its measured time, by the bricks of
  other families alone (``none``), and with bricks of its own that make half of its time (``half``; seeded, any of
  them) and are learned from, too. One with a brick of a type that nobody else has is refused, as its users would see.

Judged are the mean absolute errors: of families and of models without any brick at most 15%, of models with half of
their time measured at most 8%. ``--rows`` keeps the rows with machine and versions. Nothing is measured, so there is
no ``--minutes``. Exit code 1 where an error is above its bound, 2 where there are too few bricks or families to say.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.bricks import rows as raw_rows
from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.decompositions import of_precision, of_view
from inferbench_tasks.brick_jobs.estimates import (
    FEWEST_BRICKS,
    FEWEST_FAMILIES,
    Known,
    by_family,
    estimated,
    known_bricks,
)
from inferbench_tasks.brick_jobs.families import family_of
from inferbench_tasks.brick_jobs.queries import setting_of, settings_of
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.perfdb.store import PerfDB

GATE_RATIO, HALF_GATE_RATIO, MODELS = 0.15, 0.08, 1_000
#: Share of a model's time that is measured -> the bound of the mean absolute error.
SHARES = {0.0: GATE_RATIO, 0.5: HALF_GATE_RATIO}
SEED = 1
#: Of the caches, whose times are judged.
STATE = "warm"


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
        of_wholes: dict[str, Any] = {"granularity": "1", "batch_size": 1}
        of_wholes |= {"view": of_view("runtime"), "precision": of_precision("fp32")}
        whole_cuts = results.cuts_of(results.whole_names(), of_wholes)
        wholes = {cut["whole"]: results.get(cut["whole"]) for cut in whole_cuts}
    measured_ns = {name: statistics.fmean(whole.rounds_ns["warm"]) for name, whole in wholes.items() if whole}
    print(f"{results.setting.processor}, {results.setting.runtime}: {len(known)} measured bricks")
    found = by_family(known)[STATE]
    models = [
        row for cut in whole_cuts if cut["whole"] in measured_ns
        for row in of_model(cut, known, measured_ns[cut["whole"]])
    ]  # fmt: skip
    of = {**raw_rows.where("scikit-learn"), **results.setting.model_dump(mode="json")}
    raw_rows.write(
        options.rows, [*({**of, **asdict(row)} for row in found), *({**of, **row} for row in models)]
    )
    print(f"{'family':<20}{'bricks':>8}{'estimated / measured':>23}{'bricks off (median)':>22}")
    for one in found:
        print(f"{one.family:<20}{one.bricks:>8}{one.ratio:>23.2f}{one.median_ratio:>22.0%}")
    if len(found) < FEWEST_FAMILIES:
        print(
            f"not judged: at least {FEWEST_FAMILIES} families and {FEWEST_BRICKS} bricks beside each are needed"
        )
        return 2
    held = [_said(f"{len(found)} families", [one.ratio for one in found], GATE_RATIO)]
    print(f"\n{'model':<26}{'family':<20}" + "".join(f"{f'{share:.0%} measured':>15}" for share in SHARES))
    for name in dict.fromkeys(row["model"] for row in models):
        own = [row for row in models if row["model"] == name]
        cells = [f"{row['ratio']:.2f}" if row["ratio"] else "refused" for row in own]
        print(f"{name:<26}{own[0]['family']:<20}" + "".join(f"{cell:>15}" for cell in cells))
    for share, bound in SHARES.items():
        ratios = [row["ratio"] for row in models if row["share_ratio"] == share and row["ratio"]]
        if not ratios:
            print("not judged: no model was measured as a whole")
            return 2
        held.append(_said(f"{len(ratios)} models, {share:.0%} of their time measured", ratios, bound))
    return 0 if all(held) else 1


def _said(what: str, ratios: Sequence[float], bound: float) -> bool:
    error = statistics.fmean(abs(ratio - 1) for ratio in ratios)
    held = error <= bound
    print(
        f"mean absolute error of {what}: {error:.1%}, allowed are {bound:.0%}: {'passed' if held else 'failed'}"
    )
    return held


def of_model(cut: Mapping[str, Any], known: Sequence[Known], measured_ns: float) -> list[dict[str, Any]]:
    """Of each share of its time that is measured what is predicted of it over its own time; None where refused.

    ``measured_ns``: of the model as a whole. No brick of a model of its family is known but those of that share.
    """
    family, counts = family_of(cut["model"]), Counter(cut["parts"])
    own = [one for one in known if one.work.identity in counts]
    others = [one for one in known if family not in one.families]
    if len(own) < len(counts):
        return []
    times_ns = {one.work.identity: counts[one.work.identity] * one.times_ns[STATE] for one in own}
    random.Random(f"{SEED} {cut['model']}").shuffle(own)
    rows = []
    for share in SHARES:
        revealed: list[Known] = []
        sum_ns = 0.0
        while sum_ns < share * math.fsum(times_ns.values()):
            revealed.append(own[len(revealed)])
            sum_ns += times_ns[revealed[-1].work.identity]
        rest = [one.work for one in own[len(revealed) :]]
        guessed = estimated(rest, [*others, *revealed])
        if rest and guessed is None:
            ratio = None
        else:
            of = {} if guessed is None else guessed.ns
            ratio = (sum_ns + math.fsum(counts[name] * ns[STATE] for name, ns in of.items())) / measured_ns
        rows.append({"model": cut["model"], "family": family, "share_ratio": share, "ratio": ratio})
    return rows


if __name__ == "__main__":
    sys.exit(main())
