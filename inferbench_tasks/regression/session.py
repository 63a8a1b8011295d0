"""A whole night of one submission: sides, size, session, decision, confirmation, and the move of the baseline."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.regression import store
from inferbench_tasks.regression.decide import Policy
from inferbench_tasks.regression.night import pairs_for, run_session
from inferbench_tasks.regression.overview import overview
from inferbench_tasks.regression.ratio import MIN_PAIRS
from inferbench_tasks.regression.sides import Side, own_checkout, side_of
from inferbench_tasks.regression.watched import comparable

Say = Callable[[str], None]
#: Sessions that may follow a night at once; the nights after it go on with what is still open.
CONFIRMATIONS_A_NIGHT = 2


@dataclass(frozen=True)
class Night:
    """What is asked for. ``detect``: the smallest change to be found, ratio; ``pairs`` goes before it."""

    file: Path
    pairs: int | None = None
    detect: float | None = None
    candidate: Path | None = None
    baseline: Path | None = None
    candidate_python: str | None = None
    baseline_python: str | None = None
    confirm: bool = True
    #: Take the candidate for the accepted baseline, whatever was accepted before.
    new_baseline: bool = False


def run_night(
    night: Night,
    db: PerfDB,
    data_dir: Path,
    say: Say,
    stopped: Callable[[], bool] = lambda: False,
    lease: HeldLease | None = None,
) -> dict[str, Any]:
    """Run it; the overview of this submission afterwards, with what any session of the night confirmed.

    The baseline moves once a change was confirmed and nothing is suspected any more: a move ends the history that
    an open suspicion of another series is judged by, and with it that suspicion.

    ``lease``: as of ``run_session``. Raises InputError (the submission, a side, a baseline that is not here),
    StageError (too many runs that are not valid) and LeaseLostError.
    """
    submission = comparable(night.file, "A nightly comparison")
    name = submission.name
    candidate = side_of(night.candidate or own_checkout(), night.candidate_python, data_dir)
    baseline = accepted_baseline(night, name, candidate, db, data_dir, lease)
    histories = store.histories(db, [name]) if store.sessions(db, [name]) else {}
    pairs = night.pairs or pairs_for(histories, night.detect)
    say(f"{name}: {pairs} pairs, baseline {baseline.id[:8]}, candidate {candidate.id[:8]}")
    if pairs < MIN_PAIRS:
        say(f"{name}: fewer than {MIN_PAIRS} pairs show nothing: this session decides nothing")
    outcome: dict[str, Any] = {}
    for attempt in range(1 + CONFIRMATIONS_A_NIGHT):
        if attempt:
            say(f"{name}: confirming {', '.join(s['series'] for s in outcome['suspicions'])}")
        run_session(
            night.file.absolute(), submission, baseline=baseline, candidate=candidate, pairs=pairs, db=db,
            data_dir=data_dir, kind="confirmation" if attempt else "night", say=say, stopped=stopped,
            lease=lease,
        )  # fmt: skip
        outcome = overview(db, [name], Policy())
        if stopped() or not night.confirm or not outcome["suspicions"]:
            break
    if outcome["accepted"] and night.baseline is None and night.baseline_python is None:
        changed = ", ".join(outcome["accepted"])
        if outcome["suspicions"]:
            say(
                f"{name}: the baseline stays until what is suspected is decided; changed against it: {changed}"
            )
        else:
            store.move_baseline(db, name, candidate, f"confirmed changes of {changed}", lease)
    return outcome


def accepted_baseline(
    night: Night, name: str, candidate: Side, db: PerfDB, data_dir: Path, lease: HeldLease | None = None
) -> Side:
    """What to compare with: what the night names, else what was accepted, else (the first night) the candidate.

    Raises InputError for an accepted one that is not on this machine: it is never replaced unasked.
    """
    if night.baseline or night.baseline_python:
        return side_of(night.baseline or own_checkout(), night.baseline_python, data_dir)
    accepted = store.baseline(db, name)
    if accepted is None or night.new_baseline:
        why = "the first night" if accepted is None else f"taken by hand instead of {accepted.id}"
        store.move_baseline(db, name, candidate, why, lease)
        return candidate
    for missing in (accepted.tree, accepted.python):
        if not Path(missing).exists():
            code = f" (commit {accepted.git_sha[:12]})" if accepted.git_sha else ""
            raise InputError(
                f"{name}: the accepted baseline {accepted.id[:8]}{code} was kept as {accepted.tree}, run by "
                f"{accepted.python}, but {missing} is not on this machine ({os.uname().nodename}). Bring it back, name "
                "a checkout (--baseline), or take today's code for the new baseline (--new-baseline): what "
                "changed in between is then compared with nothing."
            )
    return accepted
