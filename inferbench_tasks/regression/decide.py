"""From the sessions of many series to decisions: suspicion, confirmation, and when the baseline moves.

1. *Suspicion*: the pairs of the night differ, or the newest sessions together do (``evidence.strongest_run``);
   both under the false discovery rate over all series of the night. The effect must reach the minimum effect.
2. *Confirmation*, always by a session after the suspicion, in one of two ways. The sessions AFTER the suspicion
   alone differ in its direction: the data that raised it can't do that. Or all newest sessions together have become
   so unlikely that choosing the most different run of them doesn't explain it: a small change, which no few nights
   show. In both, the effect stands out of the noise WITHIN and BETWEEN sessions: a night in which one side was
   unlucky explains itself only once.
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

from inferbench_tasks.regression.base import SeriesKey, Session, worse
from inferbench_tasks.regression.evidence import Evidence, of_newest, strongest_run
from inferbench_tasks.regression.power import ALPHA, Noise, noise_of
from inferbench_tasks.regression.ratio import MIN_PAIRS
from inferbench_tasks.regression.spread import History
from inferbench_tasks.regression.watched import figure_named

Kind = Literal["suspected", "confirmed", "dropped"]
Reason = Literal["pair", "history", "confirmation"]

#: A suspicion is the largest of many nights, so its effect is exaggerated: less than this share of it refutes it.
REFUTED_RATIO, REFUTED_Z = 0.25, 1.64


@dataclass(frozen=True)
class Policy:
    """``suspect_rate``: false discovery rate of suspicions; ``confirm_alpha``: one-sided, of each look."""

    suspect_rate: float = 0.05
    #: The same for runs of sessions, which show what single nights are too noisy for.
    history_rate: float = 0.1
    confirm_alpha: float = 0.002
    #: The same as ``confirm_alpha``, two-sided, for the most different run of the newest sessions.
    run_alpha: float = 0.004
    #: Changes below it are nobody's concern, ln ratio.
    min_effect: float = 0.005
    #: A suspicion that so many sessions did not confirm is dropped.
    max_confirmations: int = 8
    #: The history that a change is looked for in, sessions.
    window: int = 40


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
    #: The standard error of that level.
    accepted_error: float = 0.0


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
        if not decides(session):
            continue
        state = states[key]
        if state.epoch and state.epoch[-1].baseline_id != session.baseline_id:
            # Ratios to another baseline are another history, and its levels say nothing of this one: also where that
            # baseline comes back later, since what was accepted against it then is the code that was taken back.
            state.epoch, state.suspicion, state.pending = [], None, []
            state.accepted = state.accepted_error = 0.0
        relative = _relative(state, session)
        if state.suspicion is not None:
            state.pending.append(relative)
            to_confirm[key] = relative
        else:
            state.epoch.append(relative)
            to_suspect[key] = relative
    runs = _runs(states, [*to_suspect, *to_confirm], policy)
    _suspect(states, to_suspect, runs, policy)
    _confirm(states, to_confirm, runs, policy)


def decides(session: Session) -> bool:
    """Whether a session has pairs enough for anything to be decided by it."""
    return min(len(session.baseline), len(session.candidate)) >= MIN_PAIRS


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


@dataclass(frozen=True)
class _Run:
    """The most different run of a series' newest sessions; ``p_value``: adjusted over the series of the night."""

    evidence: Evidence
    p_value: float
    sessions: tuple[Session, ...]

    def shows(self, rate: float, policy: Policy) -> bool:
        return self.p_value <= rate and abs(self.evidence.effect) >= policy.min_effect


def _runs(states: dict[SeriesKey, State], keys: Sequence[SeriesKey], policy: Policy) -> dict[SeriesKey, _Run]:
    """Of the series that have enough sessions for one."""
    runs = {}
    for key in keys:
        sessions = (*states[key].epoch, *states[key].pending)[-policy.window :]
        if strongest := strongest_run(History.of(sessions, states[key].accepted_error)):
            evidence, p_value = strongest
            runs[key] = _Run(evidence, p_value, sessions[evidence.start :])
    p_values = adjusted([run.p_value for run in runs.values()])
    return {key: replace(run, p_value=p) for (key, run), p in zip(runs.items(), p_values, strict=True)}


def _suspect(
    states: dict[SeriesKey, State],
    night: dict[SeriesKey, Session],
    runs: Mapping[SeriesKey, _Run],
    policy: Policy,
) -> None:
    pairs = {key: _of_pairs(states[key], policy) for key in night}
    p_values = dict(zip(pairs, adjusted([pair.p_value for pair in pairs.values()]), strict=True))
    for key, pair in pairs.items():
        run = runs.get(key)
        significant = p_values[key] <= policy.suspect_rate and pair.p_value <= ALPHA
        if significant and abs(pair.effect) >= policy.min_effect:
            change: tuple[float, float, Reason] = (pair.effect, p_values[key], "pair")
        elif run is not None and run.shows(policy.history_rate, policy):
            change = (run.evidence.effect, run.p_value, "history")
        else:
            continue
        event = _event("suspected", key, night[key].id, *change, (night[key].id,))
        states[key].suspicion = event
        states[key].events.append(event)


def _of_pairs(state: State, policy: Policy) -> Evidence:
    """The pairs of the newest session against no change; the sessions before say what noise is usual."""
    sessions = state.epoch[-policy.window :]
    return of_newest(History.of(sessions, state.accepted_error), 1, len(sessions) - 1)


def _confirm(
    states: dict[SeriesKey, State],
    night: dict[SeriesKey, Session],
    runs: Mapping[SeriesKey, _Run],
    policy: Policy,
) -> None:
    later = {key: _since(states[key], policy) for key in night}
    chances = [later[key].tail(_sign(states[key])) for key in later]
    p_values = dict(zip(later, adjusted(chances), strict=True))
    for key, session in night.items():
        state, now, p_value, run = states[key], later[key], p_values[key], runs.get(key)
        assert state.suspicion is not None
        by: Reason = "confirmation"
        sessions = tuple(state.pending)
        confirmed = p_value <= policy.confirm_alpha and abs(now.effect) >= policy.min_effect
        if not confirmed and run is not None and run.evidence.z * _sign(state) > 0:
            confirmed = run.shows(policy.run_alpha, policy)
            if confirmed:
                now, p_value, by, sessions = run.evidence, run.p_value, "history", run.sessions
        ids = tuple(s.id for s in sessions)
        if confirmed:
            state.events.append(_event("confirmed", key, session.id, now.effect, p_value, by, ids))
            state.accepted += now.effect
            state.accepted_error = math.sqrt(now.error**2 - state.accepted_error**2)
            factor = math.exp(-now.effect)
            state.epoch = [replace(s, candidate=tuple(c * factor for c in s.candidate)) for s in sessions]
        elif len(state.pending) >= policy.max_confirmations or _refuted(now, state.suspicion, policy):
            state.events.append(_event("dropped", key, session.id, now.effect, p_value, by, ids))
            state.epoch += state.pending
        else:
            continue
        state.suspicion, state.pending = None, []


def _sign(state: State) -> float:
    assert state.suspicion is not None
    return math.copysign(1.0, state.suspicion.effect)


def _since(state: State, policy: Policy) -> Evidence:
    """The sessions since the suspicion, without the one that raised it: neither as evidence nor as usual noise."""
    before = state.epoch[-policy.window :]
    history = History.of([*before, *state.pending], state.accepted_error)
    return of_newest(history, len(state.pending), len(before) - 1)


def _refuted(now: Evidence, suspicion: Event, policy: Policy) -> bool:
    """Whether the sessions since the suspicion leave no room (95%) for a part of it that is worth finding."""
    most = math.copysign(1.0, suspicion.effect) * now.effect + REFUTED_Z * now.error
    return most < max(policy.min_effect, REFUTED_RATIO * abs(suspicion.effect))


def usual_noise(state: State) -> Noise:
    """The noise of a series since its baseline moved: within its pairs, and between the sessions of each level."""
    before = state.epoch[:-1] if state.suspicion else state.epoch
    if not before and not state.pending:
        # The very first session is the suspect: what its pairs differ by among themselves is known all the same.
        before = state.epoch
    return noise_of(before, state.pending)


def _event(
    kind: Kind, key: SeriesKey, session: str, effect: float, p_value: float, by: Reason, ids: tuple[str, ...]
) -> Event:
    bad = worse(effect, higher=figure_named(key.figure).higher)
    return Event(kind, session, effect, p_value, bad, by, ids)
