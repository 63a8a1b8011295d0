"""Do the intervals of an interleaved sweep hold on a machine that drifts? ``python -m benchmarks.noise.pairs``.

Two configurations, the second 3% slower, eight runs of each on machines whose level moves from run to run. ``pairs``:
in turns, by ``analysis.report.paired``. ``unpaired``: the same runs in turns as two samples (Welch's t). ``one after
the other``: all runs of the one, then all of the other, as two samples. Printed are the share of 95% intervals that
hold the true ratio, how wide they are (ln ratio), and how often the 3% is found.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.certainty import Change
from inferbench_tasks.analysis.report.paired import Pair, change_of

BLOCKS, EFFECT, NOISE = 8, math.log(1.03), 0.01
#: The levels of the machine over the runs, ln.
Machine = Callable[[np.random.Generator, int], NDArray[np.float64]]


def _bursts(rng: np.random.Generator, runs: int) -> NDArray[np.float64]:
    """Somebody else's job comes and goes, four runs long on average, and takes up to a quarter."""
    on, levels = False, np.zeros(runs)
    for at in range(runs):
        on = rng.random() < (0.75 if on else 0.15)
        levels[at] = rng.uniform(0.1, 0.25) if on else 0.0
    return levels


MACHINES: dict[str, Machine] = {
    "still": lambda rng, runs: np.zeros(runs),
    "warms up by 6%": lambda rng, runs: 0.06 * np.arange(runs) / runs,
    "random walk, 2% a run": lambda rng, runs: np.cumsum(rng.normal(0, 0.02, runs)),
    "day and night, 8%": lambda rng, runs: 0.08 * np.sin(2 * np.pi * (np.arange(runs) / 20 + rng.random())),
    "somebody's jobs, to 25%": _bursts,
    "every run by itself, 5%": lambda rng, runs: rng.normal(0, 0.05, runs),
}
IN_TURNS = np.array([0, 1, 1, 0] * (BLOCKS // 2))
ONE_AFTER_THE_OTHER = np.repeat([0, 1], BLOCKS)


def pairs(values: NDArray[np.float64]) -> Change:
    """Of ln figures in turns."""
    blocks = [(block, values[2 * block : 2 * block + 2]) for block in range(BLOCKS)]
    change = change_of(
        [Pair(float(v[1] - v[0]) if b % 2 == 0 else float(v[0] - v[1]), b % 2 == 0) for b, v in blocks]
    )
    assert change is not None
    return change


def unpaired(values: NDArray[np.float64], side: NDArray[np.int64]) -> Change:
    """Two samples of unlike spread (Welch)."""
    samples = [values[side == which] for which in (0, 1)]
    errors = [sample.var(ddof=1) / len(sample) for sample in samples]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(s) - 1) for e, s in zip(errors, samples, strict=True))
    return Change(float(samples[1].mean() - samples[0].mean()), math.sqrt(sum(errors)), float(freedom))


def measured(machine: Machine, side: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The ln figures of the runs in that order."""
    return machine(rng, len(side)) + EFFECT * side + rng.normal(0, NOISE, len(side))


def coverage(name: str, runs: int, seed: int = 1) -> dict[str, tuple[float, float, float]]:
    """Way -> (share of intervals that hold, their mean half-width, share of sweeps in which the change is found)."""
    rng = np.random.default_rng(seed)
    machine = MACHINES[name]
    rows: dict[str, list[Change]] = {"pairs": [], "unpaired": [], "one after the other": []}
    for _ in range(runs):
        turns = measured(machine, IN_TURNS, rng)
        rows["pairs"].append(pairs(turns))
        rows["unpaired"].append(unpaired(turns, IN_TURNS))
        after = measured(machine, ONE_AFTER_THE_OTHER, rng)
        rows["one after the other"].append(unpaired(after, ONE_AFTER_THE_OTHER))
    result = {}
    for way, changes in rows.items():
        bounds = np.array([change.interval() for change in changes])
        held = (bounds[:, 0] <= EFFECT) & (bounds[:, 1] >= EFFECT)
        widths = (bounds[:, 1] - bounds[:, 0]) / 2
        result[way] = float(held.mean()), float(widths.mean()), float((bounds[:, 0] > 0).mean())
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000, help="sweeps of each machine")
    runs = parser.parse_args().runs
    ways = ("pairs", "unpaired", "one after the other")
    print(f"{'machine':26}" + "".join(f"{way + ': held, ±, found':>40}" for way in ways))
    for name in MACHINES:
        cells = coverage(name, runs)
        texts = [f"{held:.1%}, ±{width:.1%}, {found:.0%}" for held, width, found in (cells[w] for w in ways)]
        print(f"{name:26}" + "".join(f"{text:>40}" for text in texts), flush=True)


if __name__ == "__main__":
    main()
