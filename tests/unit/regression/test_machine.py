"""The level of both sides: sharper than ratios on a steady machine, never believed where the machine moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferbench_tasks.regression.base import Session
from inferbench_tasks.regression.evidence import CLIP, Evidence, _judged
from inferbench_tasks.regression.machine import MIN_BEFORE, MIN_SESSIONS
from inferbench_tasks.regression.spread import History
from tests.unit.regression.builders import nights


def on_a_machine(sessions: list[Session], log_levels: list[float]) -> list[Session]:
    """Both sides of each session slower by that much."""
    return [
        replace(
            s,
            baseline=tuple(v * np.exp(level) for v in s.baseline),
            candidate=tuple(v * np.exp(level) for v in s.candidate),
        )
        for s, level in zip(sessions, log_levels, strict=True)
    ]


def run_from(sessions: list[Session], start: int, *, with_level: bool = True) -> Evidence:
    starts = np.array([start])
    return _judged(History.of(sessions), starts, starts, CLIP, with_level)[0]


def plain(sessions: list[Session], start: int) -> float:
    return run_from(sessions, start, with_level=False).effect


def test_on_a_steady_machine_the_effect_is_sharper_and_its_error_is_true() -> None:
    """Five nights of +3% after 20 quiet ones: unbiased, at most 0.9 of a ratio's spread, within its error."""
    series = [nights([0.0] * 20 + [0.03] * 5, noise=0.04, seed=seed) for seed in range(200)]
    estimates = [run_from(sessions, 20) for sessions in series]
    ratios = [plain(sessions, 20) for sessions in series]
    effects = np.asarray([one.effect for one in estimates])
    assert effects.mean() == pytest.approx(np.log(1.03), abs=0.003)
    assert effects.std() < 0.9 * np.std(ratios)
    assert ((effects - np.log(1.03)) / [one.error for one in estimates]).std() < 1.15


@pytest.mark.parametrize("seed", range(5))
def test_on_a_drifting_machine_the_ratio_stays_what_it_was(seed: int) -> None:
    """A random walk of 2% a night: what both sides did before says nothing of tonight."""
    walk = np.cumsum(np.random.default_rng(seed).normal(0, 0.02, 24))
    sessions = on_a_machine(nights([0.0] * 24, seed=seed), list(walk))
    assert run_from(sessions, 20).effect == pytest.approx(plain(sessions, 20), abs=0.004)


def test_a_machine_that_changes_once_changes_no_ratio() -> None:
    """20 quiet nights, then a machine that is 10% slower: for the baseline as for the candidate."""
    sessions = on_a_machine(nights([0.0] * 22), [0.0] * 20 + [0.1] * 2)
    assert run_from(sessions, 20).effect == plain(sessions, 20)


@pytest.mark.parametrize(("count", "start"), [(MIN_SESSIONS - 1, 4), (12, MIN_BEFORE - 1)])
def test_without_enough_sessions_the_ratio_counts(count: int, start: int) -> None:
    """Fewer sessions than say how much the machine moves, in all or before the run, are no history."""
    sessions = nights([0.0] * count)
    assert run_from(sessions, start).effect == plain(sessions, start)
