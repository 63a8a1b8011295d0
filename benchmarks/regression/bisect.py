"""Does a bisection find the one commit of 32 that made it 3% slower, and none where there is none?

    python -m benchmarks.regression.bisect [--seeds 20] [--size 0.03] [--only white ...]

Every block of four pairs is drawn from the noise of a night (``noise``), a night holding two blocks; the steps from the
culprit on are slower by ``--size``. It is the product's own walk (``regression.bisect.walk``) that asks for pairs,
decides, and names. *Steps* are comparisons: the ends' is the first of them, the one of the named commit with the one
before it is the last. Exit code 1 unless, in white noise, the culprit is named in at most seven steps in 19 of 20
seeds and nothing is named where nothing changed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.regression.noise import PAIRS, RECORDED, SYNTHETIC, Night, drawn, recorded
from inferbench_tasks.regression.bisect.answer import Answer, answer_of
from inferbench_tasks.regression.bisect.state import BisectRun, BisectState, Comparison, Task
from inferbench_tasks.regression.bisect.walk import next_comparison

COMMITS, STEPS, SEEDS_RATIO = 32, 7, 0.95
QUIET = RECORDED.with_name("quiet.parquet")
#: Of the gate.
GATE = "white"


@dataclass(frozen=True)
class Outcome:
    """``right``: the culprit, or none, as it is. ``wrong``: another, a range without it, any where there is none."""

    right: bool
    wrong: bool
    kind: str
    steps: int
    pairs: int
    covered: bool | None


def nights_of(noise: str, seed: int) -> Iterator[Night]:
    """Nights of unchanged code without end."""
    rng = np.random.default_rng(seed)
    while True:
        if noise in SYNTHETIC:
            yield from SYNTHETIC[noise](rng, 30)
        else:
            yield from drawn(recorded(noise.removeprefix("recorded "), QUIET), rng, 30)


def blocks_of(noise: str, seed: int, block: int) -> Iterator[Night]:
    """The same, ``block`` pairs each."""
    for baseline, candidate in nights_of(noise, seed):
        for start in range(0, PAIRS - block + 1, block):
            yield baseline[start : start + block], candidate[start : start + block]


def bisected(noise: str, size: float, most_pairs: int, seed: int) -> Outcome:
    """One bisection; the culprit is drawn, ``size`` 0 means that there is none."""
    culprit = int(np.random.default_rng(10_000 + seed).integers(1, COMMITS + 1))
    task = Task(
        name="bisect", what="0", figure="p50_ms", steps=[f"c{i}" for i in range(COMMITS + 1)], most_pairs=most_pairs
    )  # fmt: skip
    state = BisectState(task=task)
    blocks = blocks_of(noise, seed, task.block)
    while next_comparison(state):
        comparison = next(c for c in reversed(state.comparisons) if c.decision is None)
        measure(comparison, next(blocks), culprit, size)
    answer = answer_of(state)
    named = answer.kind == "culprit"
    truth = size > 0
    effect = answer.effect
    return Outcome(
        right=(named and answer.bad == culprit) if truth else answer.kind == "none",
        wrong=answer.kind in ("culprit", "range") and not (truth and _holds(answer, culprit)),
        kind=answer.kind,
        steps=len(state.comparisons),
        pairs=sum(c.pairs() for c in state.comparisons),
        covered=effect.low <= math.log1p(size) <= effect.high if named and effect else None,
    )


def _holds(answer: Answer, culprit: int) -> bool:
    """Whether the culprit is the step, or one of the range, that was named."""
    return answer.good is not None and answer.bad is not None and answer.good < culprit <= answer.bad


def measure(comparison: Comparison, night: Night, culprit: int, size: float) -> None:
    """Add a block of pairs."""
    places = {"baseline": comparison.baseline, "candidate": comparison.candidate}
    for values in zip(*night, strict=True):
        for (side, place), value in zip(places.items(), values, strict=True):
            slower = 1 + size if place >= culprit else 1.0
            figure = float(value) * slower
            comparison.runs.append(BisectRun(run_id="", side=side, verdict="valid", figure=figure))  # type: ignore[arg-type]


def row(noise: str, outcomes: list[Outcome], changed: bool) -> str:
    """Of the table."""
    n = len(outcomes)
    right = sum(o.right and o.steps <= STEPS for o in outcomes)
    covered = [o.covered for o in outcomes if o.covered is not None]
    return (
        f"| {noise} | {'one' if changed else 'none'} | {right}/{n} | {sum(o.wrong for o in outcomes)} "
        f"| {max(o.steps for o in outcomes)} | {statistics.median(o.pairs for o in outcomes):.0f} "
        f"| {max(o.pairs for o in outcomes)} | {f'{sum(covered)}/{len(covered)}' if covered else '–'} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--size", type=float, default=0.03, help="of the change, ratio")
    parser.add_argument("--most-pairs", type=int, default=160, help="of one comparison")
    names = [*SYNTHETIC, "recorded p50_ms", "recorded mean_ms"]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="kinds of noise")
    options = parser.parse_args()
    print(f"{COMMITS} commits, {options.size:.0%}; a step is one comparison, the ends' and the last counted")
    print(
        "| noise | culprit | right, in ≤ 7 steps | wrong | most steps | pairs: median | most | interval holds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    good = True
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with ProcessPoolExecutor(2) as pool:
        for noise in options.only:
            for size in (options.size, 0.0):
                one: Callable[[int], Outcome] = partial(bisected, noise, size, options.most_pairs)
                outcomes = list(pool.map(one, seeds))
                print(row(noise, outcomes, size > 0), flush=True)
                if noise == GATE:
                    right = sum(o.right and o.steps <= STEPS for o in outcomes)
                    good &= (
                        right >= SEEDS_RATIO * len(outcomes) if size else not any(o.wrong for o in outcomes)
                    )
    print(f"gate ({GATE} noise): {'met' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
