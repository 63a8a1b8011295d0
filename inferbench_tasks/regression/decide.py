"""From the sessions of many series to decisions: suspicion, confirmation, and when the baseline moves.

1. *Suspicion*: the night's pair differs (rank test, Benjamini-Hochberg over all series of the night, and a
   bootstrap interval of the ratio without zero), or the history of ratios has a change point (E-Divisive,
   also under the false discovery rate). Either way the effect must reach the minimum effect.
2. *Confirmation*: only sessions AFTER the suspicion count, so the data that raised it can't confirm it. Their mean
   effect must be in the same direction, reach the minimum effect and stand out of the noise WITHIN and BETWEEN
   sessions: a night in which one side was unlucky explains itself only once.
3. The baseline moves with a confirmed change, never before, and the history starts again from there.

A regression and an improvement are decided alike. All of it is a function of the sessions: asked again, it
answers the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.regression.base import SeriesKey, Session, worse
from inferbench_tasks.regression.changepoint import best_split
from inferbench_tasks.regression.level import Leveled, leveled
from inferbench_tasks.regression.power import Noise, noise_of
from inferbench_tasks.regression.ratio import MIN_PAIRS, judge_pair

Kind = Literal["suspected", "confirmed", "dropped"]
Reason = Literal["pair", "history", "confirmation"]

#: A suspicion is the largest of many nights, so its effect is exaggerated: less than this share of it refutes it.
REFUTED_RATIO, REFUTED_Z = 0.25, 1.64


@dataclass(frozen=True)
class Policy:
    """``suspect_rate``: false discovery rate of suspicions; ``confirm_alpha``: one-sided, of each look."""

    suspect_rate: float = 0.05
    #: The same for changes in the history, which single nights are too noisy to show.
    history_rate: float = 0.1
    confirm_alpha: float = 0.002
    #: Changes below it are nobody's concern, ln ratio.
    min_effect: float = 0.005
    #: A suspicion that so many sessions did not confirm is dropped.
    max_confirmations: int = 8
    #: The history that a change point is looked for in, sessions.
    window: int = 40
    #: What sessions of unchanged code are taken to differ by until a series has shown it (standard deviation).
    prior_between: float = 0.015
    prior_sessions: int = 2
    permutations: int = 499


@dataclass(frozen=True)
class Event:
    """Something that was decided in a session. ``effect``: ln ratio; ``p_value``: adjusted, of that decision.

    ``sessions``: those that it rests on, ids.
    """

    kind: Kind
    session: str
    effect: float
    p_value: float
    worse: bool
    by: Reason
    sessions: tuple[str, ...]


@dataclass
class State:
    """Where a series stands: ``epoch`` since the baseline moved, ``pending`` since the suspicion."""

    epoch: list[Session] = field(default_factory=list)
    suspicion: Event | None = None
    pending: list[Session] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    #: What has been accepted as the new level against the baseline of this epoch, ln ratio.
    accepted: float = 0.0


def decide(
    histories: Mapping[SeriesKey, Sequence[Session]], policy: Policy | None = None
) -> dict[SeriesKey, State]:
    """Go through all sessions in the order of their time; each series' state at the end."""
    policy = policy or Policy()
    states = {key: State() for key in histories}
    nights: dict[str, dict[SeriesKey, Session]] = {}
    when = {}
    for key, sessions in histories.items():
        for session in sessions:
            nights.setdefault(session.id, {})[key] = session
            when[session.id] = session.at
    for night in sorted(nights, key=lambda id_: (when[id_], id_)):
        _step(states, nights[night], policy)
    return states


def _step(states: dict[SeriesKey, State], night: dict[SeriesKey, Session], policy: Policy) -> None:
    to_suspect, to_confirm = {}, {}
    for key, session in night.items():
        if min(len(session.baseline), len(session.candidate)) < MIN_PAIRS:
            continue
        state = states[key]
        if state.epoch and state.epoch[-1].baseline_id != session.baseline_id:
            # Ratios to another baseline are another history, and its levels say nothing of this one: also where that
            # baseline comes back later, since what was accepted against it then is the code that was taken back.
            state.epoch, state.suspicion, state.pending, state.accepted = [], None, [], 0.0
        relative = _relative(state, session)
        if state.suspicion is not None:
            state.pending.append(relative)
            to_confirm[key] = relative
        else:
            state.epoch.append(relative)
            to_suspect[key] = relative
    _suspect(states, to_suspect, policy)
    _confirm(states, to_confirm, policy)


def _relative(state: State, session: Session) -> Session:
    """The session against the level that counts now."""
    factor = math.exp(-state.accepted)
    return (
        session if factor == 1 else replace(session, candidate=tuple(c * factor for c in session.candidate))
    )


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini-Hochberg adjusted p-values, in the given order (Benjamini and Hochberg 1995).

    Calling those at most q discoveries keeps the expected share of false ones among them at or below q,
    for independent or positively dependent series (the figures of one run are that).
    """
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(np.asarray(p_values, float))]


def _suspect(states: dict[SeriesKey, State], night: dict[SeriesKey, Session], policy: Policy) -> None:
    keys = list(night)
    pairs = {key: judge_pair(night[key].baseline, night[key].candidate) for key in keys}
    by_pair = dict(zip(keys, adjusted([pairs[key].p_value for key in keys]), strict=True))
    splits = {key: _history_change(states[key], policy) for key in keys}
    by_history = dict(zip(keys, adjusted([splits[key][1] for key in keys]), strict=True))
    for key in keys:
        pair, (shift, _) = pairs[key], splits[key]
        excludes_zero = pair.low > 0 or pair.high < 0
        large = abs(pair.effect) >= policy.min_effect
        if by_pair[key] <= policy.suspect_rate and excludes_zero and large:
            change: tuple[float, float, Reason] = (pair.effect, by_pair[key], "pair")
        elif by_history[key] <= policy.history_rate and abs(shift) >= policy.min_effect:
            change = (shift, by_history[key], "history")
        else:
            continue
        event = _event("suspected", key, night[key].id, *change, (night[key].id,))
        states[key].suspicion = event
        states[key].events.append(event)


def _history_change(state: State, policy: Policy) -> tuple[float, float]:
    """The change of the newest level against zero, and its p-value: (ln ratio, p)."""
    epoch = state.epoch[-policy.window :]
    noise = usual_noise(state, policy)
    values = np.asarray([leveled(epoch[:i], [session], noise).effect for i, session in enumerate(epoch)])
    split = best_split(values, policy.permutations, np.random.default_rng(1))
    if split is None:
        return 0.0, 1.0
    index, p_value = split
    return float(np.median(values[index:])), p_value


def _confirm(states: dict[SeriesKey, State], night: dict[SeriesKey, Session], policy: Policy) -> None:
    evidence = {key: _since(states[key], policy) for key in night}
    p_values = dict(zip(evidence, adjusted([p for _, p in evidence.values()]), strict=True))
    for key, session in night.items():
        state, (now, _), p_value = states[key], evidence[key], p_values[key]
        assert state.suspicion is not None
        ids = tuple(s.id for s in state.pending)
        if p_value <= policy.confirm_alpha and abs(now.effect) >= policy.min_effect:
            state.events.append(
                _event("confirmed", key, session.id, now.effect, p_value, "confirmation", ids)
            )
            state.accepted += now.effect
            factor = math.exp(-now.effect)
            state.epoch = [
                replace(s, candidate=tuple(c * factor for c in s.candidate)) for s in state.pending
            ]
        elif len(state.pending) >= policy.max_confirmations or _refuted(now, state.suspicion, policy):
            state.events.append(_event("dropped", key, session.id, now.effect, p_value, "confirmation", ids))
            state.epoch += state.pending
        else:
            continue
        state.suspicion, state.pending = None, []


def _since(state: State, policy: Policy) -> tuple[Leveled, float]:
    """The effect of the sessions since the suspicion, and the chance of one so far in its direction."""
    from scipy.stats import norm

    assert state.suspicion is not None
    now = leveled(state.epoch[:-1], state.pending, usual_noise(state, policy))
    return now, float(norm.sf(math.copysign(1.0, state.suspicion.effect) * now.effect / now.error))


def _refuted(now: Leveled, suspicion: Event, policy: Policy) -> bool:
    """Whether the sessions since the suspicion leave no room (95%) for a part of it that is worth finding."""
    most = math.copysign(1.0, suspicion.effect) * now.effect + REFUTED_Z * now.error
    return most < max(policy.min_effect, REFUTED_RATIO * abs(suspicion.effect))


def usual_noise(state: State, policy: Policy) -> Noise:
    """The noise of a series: within its pairs, and between the sessions of each level.

    What a few sessions say about their own spread is drawn to the prior, so that three alike nights don't
    make the fourth look extraordinary.
    """
    before = state.epoch[:-1] if state.suspicion else state.epoch
    groups = [noise for noise in (noise_of(before), noise_of(state.pending)) if noise]
    if not groups:
        # The very first session is the suspect: what its pairs differ by among themselves is known all the same.
        groups = [noise for noise in (noise_of(state.epoch),) if noise]
    within = math.sqrt(np.average([g.within**2 for g in groups], weights=[g.sessions for g in groups]))
    variances = [(g.between**2, g.sessions - 1) for g in groups if g.sessions > 1]
    prior, count = policy.prior_sessions, sum(n for _, n in variances)
    shrunk = (prior * policy.prior_between**2 + sum(v * n for v, n in variances)) / (prior + count)
    return Noise(within, math.sqrt(shrunk), sum(g.sessions for g in groups))


def _event(
    kind: Kind, key: SeriesKey, session: str, effect: float, p_value: float, by: Reason, ids: tuple[str, ...]
) -> Event:
    bad = worse(effect, higher=FIGURES.named(key.figure).higher)
    return Event(kind, session, effect, p_value, bad, by, ids)
