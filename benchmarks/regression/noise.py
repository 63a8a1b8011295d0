"""Nights of unchanged code, synthetic and recorded, into which a known shift is put.

Each is a list of nights: (baseline figures, candidate figures), ms, in the order of their runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Night = tuple[NDArray[np.float64], NDArray[np.float64]]
RECORDED = Path(__file__).parent / "noise.parquet"
PAIRS = 8


def _sides(level: NDArray[np.floating[Any]], rng: np.random.Generator) -> Night:
    """One night: ``level`` (ln) of each run in its order ABBA ABBA ..., and 2% of noise of each run."""
    runs = np.exp(level + rng.normal(0, 0.02, 2 * PAIRS))
    first = np.resize([True, False, False, True], 2 * PAIRS)
    return runs[first], runs[~first]


def white(rng: np.random.Generator, nights: int) -> list[Night]:
    """Nothing but 2% of noise of each run."""
    return [_sides(np.zeros(2 * PAIRS), rng) for _ in range(nights)]


def drift(rng: np.random.Generator, nights: int) -> list[Night]:
    """The machine gets slower and faster: a random walk of 1% a night, and up to 3% within a night."""
    walk = np.cumsum(rng.normal(0, 0.01, nights))
    return [_sides(w + rng.normal(0, 0.03) * np.linspace(0, 1, 2 * PAIRS), rng) for w in walk]


def bimodal(rng: np.random.Generator, nights: int) -> list[Night]:
    """Three of ten processes land in a mode that is 8% slower."""
    return [_sides(0.08 * (rng.random(2 * PAIRS) < 0.3), rng) for _ in range(nights)]


def session_bias(rng: np.random.Generator, nights: int) -> list[Night]:
    """Each night has its own level (4%); one of ten has bad luck with one side (5% slower)."""
    series = []
    for _ in range(nights):
        baseline, candidate = _sides(np.full(2 * PAIRS, rng.normal(0, 0.04)), rng)
        if rng.random() < 0.1:
            unlucky = rng.integers(2)
            baseline, candidate = baseline * (1.05 if unlucky else 1), candidate * (1 if unlucky else 1.05)
        series.append((baseline, candidate))
    return series


def machine_change(rng: np.random.Generator, nights: int) -> list[Night]:
    """The machine is another one from some night on: up to 6% slower or faster for both sides, else white."""
    at, by = rng.integers(3, nights - 3), rng.uniform(-0.06, 0.06)
    return [_sides(np.full(2 * PAIRS, by * (i >= at)), rng) for i in range(nights)]


SYNTHETIC: dict[str, Callable[[np.random.Generator, int], list[Night]]] = {
    "white": white, "drift": drift, "bimodal": bimodal, "session bias": session_bias, "machine change": machine_change,
}  # fmt: skip


def recorded(figure: str, file: Path = RECORDED) -> list[Night]:
    """The recorded nights of one figure, in their order; only valid runs that measured it."""
    frame = pd.read_parquet(file).dropna(subset=[figure]).sort_values(["night", "position"])
    if "verdict" in frame:
        frame = frame[frame["verdict"] == "valid"]
    nights = []
    for _, night in frame.groupby("night"):
        baseline, candidate = (
            night.loc[night["side"] == s, figure].to_numpy() for s in ("baseline", "candidate")
        )
        n = min(len(baseline), len(candidate))
        nights.append((baseline[:n], candidate[:n]))
    return nights


def drawn(nights: list[Night], rng: np.random.Generator, count: int) -> list[Night]:
    """So many nights drawn from the recorded ones, each with its sides swapped or not: as unchanged as before."""
    draws = [nights[i] for i in rng.integers(0, len(nights), count)]
    return [night if rng.random() < 0.5 else night[::-1] for night in draws]


def shifted(nights: list[Night], at: int, by: float) -> list[Night]:
    """The candidate is slower by that share from night ``at`` on."""
    return [(b, c * (1 + by) if i >= at else c) for i, (b, c) in enumerate(nights)]
