"""A bisection at work: build, run two steps in turns, write down, decide, until there is an answer.

Pairs are those of a night (B A A B, a fresh server each, valid runs only), all on one machine. The state is written
after every run, so that a bisection that is stopped, at any moment, goes on where it was.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError, LeaseLostError, StageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.regression.bisect.answer import Answer, answer_of
from inferbench_tasks.regression.bisect.build import Build, Builder, UnbuildableError
from inferbench_tasks.regression.bisect.offer import DETECT_PERCENT
from inferbench_tasks.regression.bisect.state import (
    BisectRun,
    BisectState,
    Comparison,
    SideName,
    Task,
    load,
    save,
)
from inferbench_tasks.regression.bisect.steps import Step
from inferbench_tasks.regression.bisect.walk import Next, next_comparison
from inferbench_tasks.regression.night import MAX_EXTRA_RATIO, one_run
from inferbench_tasks.regression.store import measured_on, require_held
from inferbench_tasks.regression.watched import comparable, figure_named, watched
from inferbench_tasks.submission.sweep import expand

Say = Callable[[str], None]
#: A step whose run fails (not: is disturbed) is tried once more before it is skipped.
TRIES = 2


@dataclass(frozen=True)
class Request:
    """What is asked. ``detect``: the smallest change of the ends that counts, ratio; ``error``: of the whole answer."""

    file: Path
    steps: Sequence[Step]
    figure: str = "p50_ms"
    job: int = 0
    detect: float = DETECT_PERCENT / 100
    error: float = 0.05
    most_pairs: int = 80
    build_command: str | None = None


def task_of(request: Request) -> Task:
    """Raises InputError for a figure that nights don't watch, or a job that the submission has not."""
    submission = comparable(request.file, "A bisection")
    known = [figure.name for figure in watched(submission.kind).figures]
    if request.figure not in known:
        raise InputError(
            f"{request.figure} is no figure of nights of kind {submission.kind}; known: {', '.join(known)}",
            field="figure",
        )
    jobs = len(expand(submission))
    if request.job >= jobs:
        raise InputError(f"{submission.name} has {jobs} job(s), numbered from 0", field="job")
    texts = [request.file.read_text(encoding="utf-8"), *(step.model_dump_json() for step in request.steps)]
    return Task(
        name=submission.name,
        of_kind=submission.kind,
        what=hashlib.sha256("\n".join([*texts, request.build_command or ""]).encode()).hexdigest()[:16],
        figure=request.figure, job=request.job, steps=[step.name for step in request.steps],
        detect=math.log1p(request.detect), error=request.error, most_pairs=request.most_pairs,
    )  # fmt: skip


def bisect(
    request: Request,
    db: PerfDB,
    data_dir: Path,
    say: Say,
    stopped: Callable[[], bool] = lambda: False,
    lease: HeldLease | None = None,
) -> tuple[BisectState, Answer]:
    """Go on until there is an answer, or until it is stopped (then the answer is ``open``).

    ``lease``: that of the device that it holds, None where nobody leases devices. Once it is lost nothing is built or
    run, and neither a run that was under way nor its failure counts: LeaseLostError. Raises InputError, and StageError
    where an end can't be built or the machine gives too few valid runs.
    """
    task = task_of(request)
    # The kind follows from the submission's content, which is in it.
    identity = hashlib.sha256(task.model_dump_json(exclude={"of_kind"}).encode()).hexdigest()[:12]
    folder = data_dir / "regression" / "bisect"
    path = folder / f"{task.name}-{identity}" / "state.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    builder = Builder(request.file.absolute().resolve(), folder, data_dir, request.build_command)
    with FileLock(f"{path}.lock"):
        state = load(path, task)
        if done := sum(len(comparison.runs) for comparison in state.comparisons):
            say(f"going on: {done} run(s) are measured ({path})")
        else:
            say(f"{len(task.steps) - 1} step(s) after {task.steps[0]}; the state is kept in {path}")
        walk = _Walk(state, path, request, builder, db, data_dir, say, stopped, lease)
        while not stopped() and (following := next_comparison(state)):
            save(path, state)
            walk.measure(following)
        save(path, state)
    return state, answer_of(state)


@dataclass
class _Walk:
    state: BisectState
    path: Path
    request: Request
    builder: Builder
    db: PerfDB
    data_dir: Path
    say: Say
    stopped: Callable[[], bool]
    lease: HeldLease | None

    def measure(self, following: Next) -> None:
        """Run these two in turns until they have that many pairs; a step that can't be run is skipped."""
        comparison = next(c for c in self.state.comparisons if c.decision is None)
        places: dict[SideName, int] = {"baseline": following.baseline, "candidate": following.candidate}
        builds: dict[SideName, Build] = {}
        for side, place in places.items():
            self._require_held()
            try:
                builds[side] = self.builder.build(self.request.steps[place])
            except UnbuildableError as error:
                return self._skip(comparison, place, str(error))
        # Of this look and this start: what was not valid before a stop is no reason not to go on.
        extra = math.ceil(2 * self.state.task.block * MAX_EXTRA_RATIO)
        while comparison.pairs() < following.pairs and not self.stopped():
            side = _next_side(comparison, following.pairs)
            run = self._run(builds[side], side, places[side])
            if isinstance(run, str):
                return self._skip(comparison, places[side], run)
            comparison.runs.append(run)
            save(self.path, self.state)
            names = [self.state.task.steps[place] for place in places.values()]
            self.say(
                f"{names[0]} or {names[1]} ({comparison.purpose}), pair {comparison.pairs()}: {side} "
                + (f"{run.figure:.4g}" if run.figure is not None else run.verdict)
            )
            if run.figure is None and (extra := extra - 1) < 0:
                raise StageError(
                    f"{self.state.task.name}: too many runs are not valid to compare anything "
                    f"(the last: {run.verdict}). What was measured is kept: the same command goes on when the machine "
                    "is fit."
                )
        return None

    def _run(self, build: Build, side: SideName, place: int) -> BisectRun | str:
        """One run; or why the step can't be run at all."""
        reason = ""
        for _ in range(TRIES):
            self._require_held()
            try:
                rows = one_run(build.file, build.side, self.db, self.data_dir, build.env)
            except StageError as error:
                rows, reason = [], str(error)
            # Whoever has the device now was measured beside it, or ended it.
            self._require_held()
            if not rows:
                continue
            row = rows[min(self.state.task.job, len(rows) - 1)]
            verdict = Verdict.read(row["verdict"])
            if verdict.kind != "failed":
                return self._recorded(row, side, verdict)
            reason = f"{self.state.task.steps[place]}: {row['verdict']}"
        return reason

    def _recorded(self, row: dict[str, str], side: SideName, verdict: Verdict) -> BisectRun:
        run = BisectRun(run_id=row["run_id"], side=side, verdict=row["verdict"])
        if not verdict.valid:
            return run
        of = watched(self.state.task.of_kind)
        raw = self.db.find_raw({"run_id": run.run_id}, sort=[("attempt", -1)], collection=of.collection)
        result = to_plain(raw[0])
        machine = measured_on(result)
        if self.state.machine is None:
            self.state.machine = machine
        if machine != self.state.machine:
            raise InputError(
                f"This bisection was begun on {self.state.machine}, here is {machine}: steps of two machines can't be "
                "compared. Go on there, or remove its state to begin anew here."
            )
        run.figure = figure_named(self.state.task.figure).stored(result["summary"]) or None
        run.stages_ms = of.means(result)
        return run

    def _require_held(self) -> None:
        try:
            require_held(self.db, self.lease)
        except LeaseLostError as error:
            devices = ", ".join(self.lease.device_ids if self.lease else ())
            raise LeaseLostError(
                f"The bisection of {self.state.task.name} does not hold {devices} any more, so it ends; a run that was "
                "under way counts for nothing. What was measured before is kept: run again, by the scheduler or by "
                "you, it goes on from there."
            ) from error

    def _skip(self, comparison: Comparison, place: int, reason: str) -> None:
        self._require_held()
        name = self.state.task.steps[place]
        if place in (0, len(self.state.task.steps) - 1):
            raise StageError(
                f"{name}, an end, can't be measured, so there is nothing to compare with: {reason}"
            )
        self.say(f"skipped {name}: {reason}")
        self.state.skipped[place] = reason
        self.state.comparisons.remove(comparison)
        save(self.path, self.state)


def _next_side(comparison: Comparison, pairs: int) -> SideName:
    """B A A B by the good runs so far, unless one side has all that it needs.

    The candidate first: one that can't be run costs no run of the baseline.
    """
    count = {side: len(comparison.values(side)) for side in ("baseline", "candidate")}
    due: SideName = "candidate" if sum(count.values()) % 4 in (0, 3) else "baseline"
    other: SideName = "candidate" if due == "baseline" else "baseline"
    return due if count[due] < pairs else other
