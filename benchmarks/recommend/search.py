"""How much of the best configuration a search finds in 8% of the runs of a recorded full grid.

    python -m benchmarks.recommend.search [--seeds 30] [--grid cnn]
    python -m benchmarks.recommend.search --synthetic 8     # on so many drawn grids of each kind

For each recorded grid and goal: the mean over seeds of (objective of the best that the search ran and that keeps
the SLO) / (objective of the best of the whole grid); the worst seed; in how many seeds it is at least 95%; and
the same where each answer is one measurement drawn from those recorded, not their median: then the full grid too
chooses by one measurement of each, and both choices are judged by the medians. Nothing that keeps the SLO counts
as 0. Under it stands the regret after each run: 1 less that share, the mean over seeds. The gate is on the first: at
least 95% of seeds reach 95%. Exit code 1 below it. Drawn grids (``synthetic``) are for tuning to the principle instead
of to one machine's rows, and are no gate.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.recommend import recorded, space, synthetic
from benchmarks.recommend.recorded import Recorded
from benchmarks.recommend.searchers import SEARCHERS
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.search.searcher import BUDGET_RATIO, Goal, excess_of

WANTED_RATIO = 0.95
#: The share of seeds that has to reach it.
SEEDS_RATIO = 0.95
#: The answer of a search that noise misled may break a bound by 5% (a logarithm); beyond that it counts as nothing.
TOLERATED = math.log(1.05)


def goals(grid: Recorded) -> dict[str, Goal]:
    """Bounds near the quartiles of what the grid shows, so that they mean something on any machine, but round, as
    people set them: a bound that is one configuration's own figure is kept or broken by that configuration's noise.

    Of the p99 if every configuration has one, else of the p95.
    """
    tail = "p99" if all(figures["p99_ms"] is not None for figures in grid.figures) else "p95"

    def quantile(figure: str, share: float) -> float:
        values = sorted(v for f in grid.figures if (v := f[figure]) is not None)
        return float(f"{values[int(share * (len(values) - 1))]:.1g}")

    tight, loose = (Bound(f"{tail}_ms", True, quantile(f"{tail}_ms", share)) for share in (0.25, 0.5))
    rate = Bound("throughput_samples_per_s", False, quantile("throughput_samples_per_s", 0.6))
    return {
        f"samples/s, {tight}": Goal("throughput_samples_per_s", True, (tight,)),
        f"samples/s, {loose}": Goal("throughput_samples_per_s", True, (loose,)),
        "samples/s": Goal("throughput_samples_per_s", True),
        f"cost (CPU ms/sample), {loose}": Goal("cpu_ms_per_sample", False, (loose,)),
        f"{tail}, {rate}": Goal(f"{tail}_ms", False, (rate,)),
        f"mean latency, {rate}": Goal("mean_ms", False, (rate,)),
    }


def reached(grid: Recorded, goal: Goal, searcher: str, noisy: bool, budget: int, seed: int) -> float:
    """The share of what the full grid chooses that the search's choice reaches in the end, see ``reached_by_run``."""
    return reached_by_run(grid, goal, searcher, noisy, budget, seed)[-1]


def reached_by_run(
    grid: Recorded, goal: Goal, searcher: str, noisy: bool, budget: int, seed: int
) -> list[float]:
    """The share of what the full grid chooses that the search's choice after each run reaches; ``noisy``: each chooses
    by the same single measurement of every configuration.
    """
    rng = random.Random(seed)
    answers = [
        rng.choice(runs) if noisy and runs else f for runs, f in zip(grid.runs, grid.figures, strict=True)
    ]
    best = _chosen(goal, answers, range(len(answers)))
    assert best is not None
    search = SEARCHERS[searcher](grid.points, goal, seed, budget)
    seen: list[int] = []
    shares: list[float] = []
    while len(seen) < budget and (index := search.ask()) is not None:
        search.tell(index, answers[index])
        seen.append(index)
        shares.append(_share(grid, goal, _chosen(goal, answers, seen), best))
    return shares


def _share(grid: Recorded, goal: Goal, found: int | None, best: int) -> float:
    """Both are judged by what they really are, not by a lucky measurement."""
    if found is None:
        return 0.0
    ours, theirs = (goal.gain(grid.figures[index]) for index in (found, best))
    assert ours is not None and theirs is not None
    if _breaks(goal, grid.figures[found]) and not _breaks(goal, grid.figures[best]):
        return 0.0
    return min(1.0, ours / theirs if goal.higher else theirs / ours)


def _chosen(goal: Goal, answers: Sequence[Mapping[str, float | None]], among: Iterable[int]) -> int | None:
    """Which of these configurations is the best that keeps the bounds, by these answers."""
    gains = {i: gain for i in among if goal.keeps(answers[i]) and (gain := goal.gain(answers[i])) is not None}
    return max(gains, key=lambda index: gains[index]) if gains else None


def _breaks(goal: Goal, figures: Mapping[str, float | None]) -> bool:
    return any((excess_of(bound, figures) or 0.0) > TOLERATED for bound in goal.bounds)


def reached_all(searcher: str, noisy: bool, drawn: tuple[str, str, int]) -> list[float]:
    """The shares that one seed reaches for all goals of a synthetic grid."""
    grid = synthetic.drawn(*drawn)
    budget = int(BUDGET_RATIO * len(grid.points))
    return [reached(grid, goal, searcher, noisy, budget, drawn[2]) for goal in goals(grid).values()]


def synthetic_table(
    spaces: list[str], searches: list[str], count: int, noisy: bool, pool: ProcessPoolExecutor
) -> None:
    """One row for each space, kind of grid and searcher, over all grids and goals."""
    columns = f"{'median':>8}{'mean':>8}{'worst':>8}{'searches ≥ 95%':>16}"
    print(f"{'space':<15}{'runs':>10}  {'kind':<11}{'search':<15}{columns}")
    for space_name in spaces:
        size = len(space.grid(synthetic.SPACES[space_name]))
        runs = f"{int(BUDGET_RATIO * size)} of {size}"
        for kind, searcher in itertools.product(synthetic.KINDS, searches):
            drawn = [(kind, space_name, seed) for seed in range(count)]
            each = pool.map(partial(reached_all, searcher, noisy), drawn)
            shares = [share for found in each for share in found]
            good = sum(share >= WANTED_RATIO for share in shares) / len(shares)
            told = f"{statistics.median(shares):>8.1%}{statistics.mean(shares):>8.1%}{min(shares):>8.1%}{good:>16.0%}"
            print(f"{space_name:<15}{runs:>10}  {kind:<11}{searcher:<15}{told}", flush=True)


def main() -> int:
    """Compare; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument(
        "--from", dest="folder", type=Path, default=recorded.DATA, help="the data sets' folder"
    )
    parser.add_argument("--grid", help="only this data set")
    parser.add_argument("--synthetic", type=int, metavar="N", help="N drawn grids of each kind instead")
    parser.add_argument(
        "--noisy", action="store_true", help="with --synthetic: each answer one noisy measurement"
    )
    spaces = list(synthetic.SPACES)
    parser.add_argument(
        "--spaces", nargs="+", choices=spaces, default=spaces, help="with --synthetic: only these"
    )
    lean = [name for name in SEARCHERS if not name.startswith("Optuna")]
    parser.add_argument(
        "--searches", nargs="+", choices=list(SEARCHERS), default=lean, help="all but Optuna's by default"
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.synthetic:
        with ProcessPoolExecutor(options.workers) as pool:
            synthetic_table(options.spaces, options.searches, options.synthetic, options.noisy, pool)
        return 0
    names = [name for name in recorded.names(options.folder) if options.grid in (None, name)]
    if not names:
        print(
            f"{options.folder} has no grid{f' {options.grid}' if options.grid else ''}; record one: "
            "python -m benchmarks.recommend.record cnn (see README.md)"
        )
        return 2
    failed = False
    with ProcessPoolExecutor(options.workers) as pool:
        for name in names:
            grid = recorded.read(name, options.folder)
            if len(grid.points) < len(space.grid()):
                print(
                    f"{name}: {len(grid.points)} of {len(space.grid())} configurations are recorded; not complete"
                )
                failed = True
                continue
            budget = int(BUDGET_RATIO * len(grid.points))
            spread = ", ".join(
                f"{f} {s:.0%}" for f in ("throughput_samples_per_s", "p99_ms") if (s := grid.spread(f))
            )
            print(
                f"\n{name}: {len(grid.points)} configurations, {sum(map(len, grid.runs))} measurements; {budget} "
                f"runs ({budget / len(grid.points):.1%}), {options.seeds} seeds; spread between repeats: "
                f"{spread or 'unknown'}\n"
            )
            print(
                f"{'goal':<40}{'search':<15}{'mean':>7}{'worst':>8}{'seeds ≥ 95%':>13}{'noisy: mean':>13}{'≥ 95%':>8}"
            )
            for title, goal in goals(grid).items():
                for searcher in options.searches:
                    paths, noisy_paths = (
                        list(
                            pool.map(
                                partial(reached_by_run, grid, goal, searcher, draw, budget),
                                range(options.seeds),
                            )
                        )
                        for draw in (False, True)
                    )
                    shares, noisy = ([path[-1] for path in each] for each in (paths, noisy_paths))
                    good, good_noisy = (
                        sum(s >= WANTED_RATIO for s in found) / len(found) for found in (shares, noisy)
                    )
                    bad = searcher == "this search" and good < SEEDS_RATIO
                    failed |= bad
                    print(
                        f"{title:<40}{searcher:<15}{statistics.mean(shares):>7.1%}{min(shares):>8.1%}{good:>13.0%}"
                        f"{statistics.mean(noisy):>13.1%}{good_noisy:>8.0%}{'   BELOW' if bad else ''}"
                    )
                    regret = [1 - statistics.mean(after) for after in zip(*paths, strict=True)]
                    print(f"    regret after each run: {' '.join(f'{share:.1%}' for share in regret)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
