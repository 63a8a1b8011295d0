"""One model's latency on this machine: its unique bricks, timed where they were not yet, and what follows of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.brick_jobs.answer import answer
from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.brick_jobs.cutting import CutModel, ToMeasure
from inferbench_tasks.brick_jobs.store import result_of
from inferbench_tasks.bricks.measure import journal
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import BrickFailed, run_session, why_not
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.errors import StageError

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults

#: What is done, how much of how much.
Progress = Callable[[str, float, float | None], None]
CALIBRATE_ON = 3


@dataclass(frozen=True)
class Measured:
    """What one session measured; ``disturbed``: why its times are not to be trusted and were not kept."""

    fresh: dict[str, Result]
    disturbed: str | None = None


def measure(
    missing: Sequence[ToMeasure],
    results: PerfDBResults,
    method: Method,
    folder: Path,
    progress: Progress,
    journals: Path | None = None,
) -> Measured:
    """Time these networks on this machine, in one session, and keep the times in PerfDB.

    ``journals``: where one that is ended or disturbed leaves its good rounds to the next of the same networks, and
    where this one looks for such; None: it begins anew. Raises StageError with a layer's name for a brick that can't be
    timed.
    """
    if not missing:
        return Measured({})
    name = f"predict-{uuid.uuid4().hex[:12]}"
    items = [one.item for one in missing]
    setting = results.setting
    left: AbstractContextManager[Path | None] = (
        nullcontext(None)
        if journals is None
        else journal.session_file(journals, [item.name for item in items], setting, method)
    )
    with left as path:
        try:
            session = run_session(
                items, folder, method, threads=setting.threads, runtime=setting.runtime_name,
                base_ns=results.base_ns(), journal=path, attempt=name,
                progress=lambda done, of, what: progress(what, done, of),
            )  # fmt: skip
        except BrickFailed as error:
            [failed] = [one for one in missing if one.item.name == error.item]
            what = (
                "the model can't be run"
                if failed.item.whole
                else f"the brick of {failed.layers} can't be timed"
            )
            raise StageError(f"{what}: {error.why}") from error
        disturbed, at = why_not(session, method), results.now()
        if disturbed is None:
            session = results.at_base(session, name, at)
        fresh = {
            one.item.name: result_of(
                one, session.timed[one.item.name], setting, method, name, disturbed, at, results.place
            )
            for one in missing
        }
        if disturbed is None:
            for result in fresh.values():
                results.put(result)
        if disturbed is None or not session.good_rounds:
            journal.done(path)
    return Measured(fresh, disturbed)


def answer_here(
    results: PerfDBResults,
    cut: CutModel,
    wholes: bool,
    known: Collection[str],
    measured: Measured,
    constructor: str,
    calibrate_on: int = CALIBRATE_ON,
    wanted: Wanted | None = None,
) -> dict[str, Any]:
    """The prediction; ``known``: what had a time before that was ``wanted``, ``wholes``: whether the model's own was
    asked for."""
    times = {**results.get_many(known, wanted), **measured.fresh}
    found = answer(results, cut, times, calibrate_on, constructor)
    now = sum(part in measured.fresh for part in set(cut.parts))
    if not wholes:
        found |= dict.fromkeys(("measured_ms", "measured_interval_ms", "measured_rounds_ms"))
    return {**found, "measured_now": now, "disturbed": measured.disturbed}
