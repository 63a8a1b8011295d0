"""Is the stated minimum detectable effect found as often as stated, and no change as seldom?

    python -m benchmarks.regression.stated [--nights 2000] [--pairs 8]

A series of 20 quiet nights states its effect (80% power at a level of 1%). Then comes a night with exactly that change
and one without. Between the pairs of each night the machine drifts by 0 to 6%; each run has 2% of noise of its own. The
first two columns are of the rule's own test of the pairs, the others of the rank test of Mann and Whitney on the same
runs, which does not look at pairs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from inferbench_tasks.regression.base import Session
from inferbench_tasks.regression.evidence import of_newest
from inferbench_tasks.regression.power import ALPHA, minimum_detectable_effect, noise_of
from inferbench_tasks.regression.ratio import mann_whitney
from inferbench_tasks.regression.spread import History

DRIFTS, RUN_NOISE, HISTORY = (0.0, 0.02, 0.04, 0.06), 0.02, 20
START = datetime(2026, 1, 1, tzinfo=UTC)


def night(drift: float, pairs: int, rng: np.random.Generator) -> Session:
    """A session of unchanged code; ``drift``: standard deviation of the machine's level between pairs, ln."""
    machine = rng.normal(0, drift, pairs)
    sides = (tuple(10 * np.exp(machine + rng.normal(0, RUN_NOISE, pairs))) for _ in range(2))
    baseline, candidate = sides
    return Session("night", START, baseline, candidate)


def judged(drift: float, pairs: int, rng: np.random.Generator) -> tuple[list[bool], list[bool]]:
    """One series: what the test of pairs and the rank test say of the night with the stated change, and without."""
    history = [night(drift, pairs, rng) for _ in range(HISTORY)]
    stated = minimum_detectable_effect(noise_of(history), pairs)
    quiet = night(drift, pairs, rng)
    shifted = replace(quiet, candidate=tuple(value * math.exp(stated) for value in quiet.candidate))
    nights = (shifted, quiet)
    own = [of_newest(History.of([*history, one]), 1, HISTORY).p_value <= ALPHA for one in nights]
    ranks = [mann_whitney(one.baseline, one.candidate) <= ALPHA for one in nights]
    return own, ranks


def rates(drift: float, count: int, pairs: int, seed: int) -> Iterator[float]:
    """Shares of nights that are found and of false alarms: of the test of pairs, then of the rank test."""
    rng = np.random.default_rng(seed)
    outcomes = [judged(drift, pairs, rng) for _ in range(count)]
    for test in (0, 1):
        for change in (0, 1):
            yield float(np.mean([outcome[test][change] for outcome in outcomes]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nights", type=int, default=2000, help="of each drift")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    print("| drift between pairs | found | false alarms | rank test: found | false alarms |")
    print("|---|---|---|---|---|")
    for drift in DRIFTS:
        row = rates(drift, options.nights, options.pairs, options.seed)
        print(f"| {drift:.0%} | " + " | ".join(f"{rate:.1%}" for rate in row) + " |", flush=True)


if __name__ == "__main__":
    main()
