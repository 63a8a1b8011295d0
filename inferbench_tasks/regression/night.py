"""One session: baseline and candidate in turns on this machine, each run by its own side's code.

The order is A B B A, so that what drifts during the night hits both sides alike. Every run is a run as
``inferbench run`` makes it: a fresh server, a certificate, a verdict. A run that is not valid counts for nothing and is
made again, within bounds.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import StageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.regression import store
from inferbench_tasks.regression.base import SeriesKey, Session
from inferbench_tasks.regression.decide import Policy, decide, usual_noise
from inferbench_tasks.regression.power import pairs_needed
from inferbench_tasks.regression.ratio import MIN_PAIRS
from inferbench_tasks.regression.sides import Side
from inferbench_tasks.regression.store import SessionDocument, SessionRun, SideName
from inferbench_tasks.regression.watched import sizes_nights, watched
from inferbench_tasks.submission.base import SubmissionBase

Say = Callable[[str], None]
DEFAULT_PAIRS, MOST_PAIRS = 8, 40
#: More than this share of runs that are not valid, and the session ends: the machine is not fit to measure.
MAX_EXTRA_RATIO = 0.5
#: What a run may take to clean up when it is stopped.
GRACE_S = 60.0


def pairs_for(histories: dict[SeriesKey, list[Session]], detect: float | None) -> int:
    """How many pairs a session needs so that a change by ``detect`` (ratio, 0.03 = 3%) is found.

    By the noise of the first of its kind's figures since the last accepted change; 8 where nothing is known yet; within
    MIN_PAIRS + 1 and MOST_PAIRS.
    """
    if detect is None:
        return DEFAULT_PAIRS
    policy = Policy()
    needed = []
    for key, state in decide(histories, policy).items():
        if sizes_nights(key.figure) and (state.epoch or state.pending):
            needed.append(pairs_needed(usual_noise(state), math.log1p(detect)) or MOST_PAIRS)
    return min(MOST_PAIRS, max(MIN_PAIRS + 1, *needed)) if needed else DEFAULT_PAIRS


def run_session(
    file: Path,
    submission: SubmissionBase,
    *,
    baseline: Side,
    candidate: Side,
    pairs: int,
    db: PerfDB,
    data_dir: Path,
    kind: Literal["night", "confirmation"] = "night",
    say: Say = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
    lease: HeldLease | None = None,
) -> SessionDocument:
    """Run it and write it down after every run; what was measured stays if it is stopped.

    ``lease``: that of the device that it holds, None where nobody leases devices. Once it is lost no run is begun and
    nothing more of the session is written: LeaseLostError. A run that is under way then ends, and keeps its result,
    which no session names. Raises StageError if so many runs are not valid that the planned pairs can't be had.
    """
    started = db.now()
    session = SessionDocument(
        session_id=f"{submission.name}-{started:%Y%m%dT%H%M%S}-{os.urandom(2).hex()}",
        name=submission.name, kind=kind, started_at=started, pairs=pairs, baseline=baseline, candidate=candidate,
        of_kind=submission.kind,
    )  # fmt: skip
    sides: dict[SideName, Side] = {"baseline": baseline, "candidate": candidate}
    remaining: dict[SideName, int] = {"baseline": pairs, "candidate": pairs}
    told = watched(submission.kind).told
    position, extra = 0, math.ceil(2 * pairs * MAX_EXTRA_RATIO)
    while any(remaining.values()) and not stopped():
        side = _next_side(position, remaining)
        store.require_held(db, lease)
        rows = one_run(file, sides[side], db, data_dir)
        valid = bool(rows) and all(Verdict.read(row["verdict"]).valid for row in rows)
        session.runs += [
            SessionRun(run_id=row["run_id"], side=side, job=job, position=position)
            for job, row in enumerate(rows)
        ]
        store.save_session(db, session, lease)
        valid_count = 2 * pairs - sum(remaining.values()) + valid
        say(
            f"{valid_count}/{2 * pairs} {side}: "
            + "; ".join(f"{_figure(row, told)} {row['verdict']}" for row in rows)
        )
        if valid:
            remaining[side] -= 1
        elif (extra := extra - 1) < 0:
            raise StageError(
                f"{submission.name}: too many runs are not valid to compare anything "
                f"(the last: {rows[-1]['verdict'] if rows else 'no result'})"
            )
        position += 1
    session.ended_at = db.now()
    store.save_session(db, session, lease)
    return session


def one_run(
    file: Path, side: Side, db: PerfDB, data_dir: Path, variables: Mapping[str, str] | None = None
) -> list[dict[str, str]]:
    """The submission once, by that side's code: the rows that ``inferbench run -o json`` prints.

    ``variables`` of the environment go before the side's own. Raises StageError if there are no rows.
    """
    env = {**side.environment(data_dir, db.uri), **(variables or {})}
    command = [
        side.python,
        "-m",
        "inferbench_tasks.cli.main",
        "run",
        str(file),
        "--inline",
        "-o",
        "json",
    ]
    Path(env[settings.DATA_DIR]).mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            out, err = child.communicate()
        except BaseException:  # stopped: it ends its server and writes down that it was cancelled
            child.terminate()
            child.wait(timeout=GRACE_S)
            raise
    if child.returncode not in (0, 1) or not out.strip():
        raise StageError(f"{side.tree}: `inferbench run` failed:\n{err.strip()[-2000:]}")
    rows: list[dict[str, str]] = json.loads(out)
    return rows


def _next_side(position: int, remaining: dict[SideName, int]) -> SideName:
    """A B B A, unless only one side still needs runs."""
    due: SideName = "baseline" if position % 4 in (0, 3) else "candidate"
    other: SideName = "candidate" if due == "baseline" else "baseline"
    return due if remaining[due] else other


def _figure(row: dict[str, str], told: tuple[str, str]) -> str:
    value = row.get(told[0])
    return "" if value is None else f"{told[1].format(float(value))},"
