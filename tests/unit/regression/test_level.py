"""The baseline's history: sharper than ratios on a steady machine, never believed where the machine moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferbench_tasks.regression.base import Session
from inferbench_tasks.regression.level import MIN_BEFORE, MIN_MOVES, leveled
from inferbench_tasks.regression.power import noise_of
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


def plain(sessions: list[Session]) -> float:
    return float(np.mean([session.effect for session in sessions]))


def test_on_a_steady_machine_the_effect_is_sharper_and_its_error_is_true() -> None:
    """Two nights of +3% after 20 quiet ones, 200 times: unbiased, at most 0.9 of a ratio's spread, within its error."""
    estimates, ratios = [], []
    for seed in range(200):
        sessions = nights([0.0] * 20 + [0.03] * 2, noise=0.04, seed=seed)
        history, now = sessions[:20], sessions[20:]
        noise = noise_of(history)
        assert noise
        estimates.append(leveled(history, now, noise))
        ratios.append(plain(now))
    effects = np.asarray([one.effect for one in estimates])
    assert effects.mean() == pytest.approx(np.log(1.03), abs=0.003)
    assert effects.std() < 0.9 * np.std(ratios)
    assert ((effects - np.log(1.03)) / [one.error for one in estimates]).std() < 1.15


@pytest.mark.parametrize("seed", range(5))
def test_on_a_drifting_machine_the_ratio_stays_what_it_was(seed: int) -> None:
    """A random walk of 2% a night: what the baseline did before says nothing of tonight."""
    walk = np.cumsum(np.random.default_rng(seed).normal(0, 0.02, 24))
    sessions = on_a_machine(nights([0.0] * 24, seed=seed), list(walk))
    noise = noise_of(sessions[:20])
    assert noise
    assert leveled(sessions[:20], sessions[20:], noise).effect == pytest.approx(
        plain(sessions[20:]), abs=0.004
    )


def test_a_machine_that_changes_once_changes_no_ratio() -> None:
    """20 quiet nights, then a machine that is 10% slower: for the baseline as for the candidate."""
    sessions = on_a_machine(nights([0.0] * 22), [0.0] * 20 + [0.1] * 2)
    noise = noise_of(sessions[:20])
    assert noise
    assert leveled(sessions[:20], sessions[20:], noise).effect == plain(sessions[20:])


@pytest.mark.parametrize("history_of", ["too few sessions", "of another baseline"])
def test_without_a_history_of_the_same_baseline_the_ratio_counts(history_of: str) -> None:
    """Fewer sessions than say how much the machine moves, or those of other code, are no history."""
    sessions = nights([0.0] * 12)
    history = sessions[: MIN_BEFORE + MIN_MOVES - 1]
    if history_of == "of another baseline":
        history = [replace(session, baseline_id="before") for session in sessions[:11]]
    noise = noise_of(sessions[:11])
    assert noise
    assert leveled(history, sessions[11:], noise).effect == plain(sessions[11:])
