"""A night keeps what is known of bricks current: one device times what it lacks, or has of another version, or old.

Which models: those that were ever cut for this instruction set, as far as they are still to be had (built-in ones, and
the newest version of registered ones, whatever the name it was cut under), and registered ones that never were, or of
which there is a newer version since: what only an older one consists of is left out.
The most useful bricks first, until the budget of device time is spent; what was timed is stored after each session.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.cutting import ToMeasure
from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_precision, of_runtime
from inferbench_tasks.brick_jobs.documents import made_of
from inferbench_tasks.brick_jobs.inside import decompose
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.known_bricks import put_bricks
from inferbench_tasks.brick_jobs.names import NEWEST_FIRST, Names
from inferbench_tasks.brick_jobs.store import PerfDBResults, result_of
from inferbench_tasks.brick_jobs.uncut import failed, uncut
from inferbench_tasks.brick_jobs.useful import Cut, Lacking, lacking, within
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.measure.session import BrickFailed, run_session, why_not
from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.errors import CancelledError, InferBenchError
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import RegistryModel, ZooModel

log = logging.getLogger(__name__)
#: One session of a night: so much estimated time, after which its times are stored.
SESSION_S = 60.0
#: What a registered model is cut at that nobody asked for yet: batch size and granularity.
_FIRST = (1, "1")


@dataclass
class Night:
    """What came of it. ``lacked``: bricks without a usable time, before; ``measured``, ``failed``: identities;
    ``gone``: models that are not to be had any more; ``disturbed``: why the last session did not count."""

    lacked: int = 0
    measured: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    disturbed: str | None = None
    seconds: float = 0.0


def run_night(
    db: PerfDB, results: PerfDBResults, ctx: Context, cores: Sequence[int], budget_s: float, max_age_days: float,
    method: Method | None = None, stopped: Callable[[], bool] = lambda: False,
) -> Night:  # fmt: skip
    """Time the most useful bricks of this device for so long; ``ctx``: cuts models in the sandbox."""
    method, night, models = method or Method(), Night(), _Models(db, ctx, results.setting.runtime_name)
    models.cut_new(results)
    cuts = models.cuts(results.setting)
    usable = results.usable(Wanted(method=method, oldest=db.now() - timedelta(days=max_age_days)))
    known = results.get_many({part for cut in cuts for part in cut["parts"]})
    ranked = lacking(cuts, usable, known, method)
    night.lacked = len(ranked)
    there = [one for one in ranked if any(models.spec(cut[0]) for cut in one.models)]
    night.gone = sorted({cut[0] for one in ranked for cut in one.models if models.spec(cut[0]) is None})
    began = time.monotonic()
    chosen = within(there, budget_s)
    while chosen and not stopped():
        left_s = budget_s - (time.monotonic() - began)
        now = within(chosen, min(SESSION_S, left_s)) or (
            chosen[:1] if chosen[0].measuring_s <= left_s else []
        )
        if not now:
            break
        chosen = [one for one in chosen if one not in now]
        with ExitStack() as kept:
            folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-bricks-"))
            todo = models.networks(now, kept)
            _session(todo, results, method, cores, Path(folder), night, stopped)
        if night.disturbed:
            break
    night.seconds = time.monotonic() - began
    return night


def _session(
    todo: list[ToMeasure], results: PerfDBResults, method: Method, cores: Sequence[int], folder: Path, night: Night,
    stopped: Callable[[], bool],
) -> None:  # fmt: skip
    def tell(done: float, of: float, what: str) -> None:
        if stopped():
            raise CancelledError("Stopped during a night of bricks.")

    while todo:
        try:
            session = run_session(
                [one.item for one in todo], folder, method, threads=results.setting.threads, cores=cores,
                runtime=results.setting.runtime_name, base_ns=results.base_ns(), progress=tell,
            )  # fmt: skip
        except BrickFailed as error:
            night.failed[error.item] = error.why
            todo = [one for one in todo if one.item.name != error.item]
            continue
        night.disturbed = why_not(session, method)
        if night.disturbed is None:
            name = f"night-{uuid.uuid4().hex[:12]}"
            at = results.now()
            session = results.at_base(session, name, at)
            for one in todo:
                timed = session.timed[one.item.name]
                results.put(result_of(one, timed, results.setting, method, name, None, at, results.place))
                night.measured.append(one.item.name)
        return


class _Models:
    """Where the models are, by the names that they were cut under."""

    def __init__(self, db: PerfDB, ctx: Context, runtime: str) -> None:
        self._db, self._ctx, self._runtime = db, ctx, runtime
        self._registered = {card.name: card for card in ModelRepository(db).search()}
        self._parts: dict[Cut, set[str]] = {}

    def spec(self, name: str) -> Spec | None:
        """How a submission names it; None where it is not to be had any more."""
        if name in self._registered:
            return RegistryModel(kind="registry", name=name)
        return ZooModel(kind="zoo", name=name) if name in ZOO else None

    def cut_new(self, results: PerfDBResults) -> None:
        """Cut registered models whose newest version nobody cut for this instruction set: its content counts, not its
        name. One that can't be is said and left out."""
        for name in uncut(self._db, self._registered.values(), results.setting):
            before = self._before(name, results)
            first: set[Cut] = {(name, *_FIRST, shapes) for *_, shapes in before} or {(name, *_FIRST, ())}
            whys = [why for cut in sorted(first) if (why := self._cut_once(cut, results)) is not None]
            if len(whys) == len(first):
                failed(self._db, self._registered[name], results.setting, whys[0])
                continue
            for cut in sorted(before - first):
                self._cut_once(cut, results)

    def _before(self, name: str, results: PerfDBResults) -> set[Cut]:
        """How older versions of a registered model were cut: the newest is asked for like that, too."""
        return {
            (name, one["batch_size"], one["granularity"], shapes)
            for one in self._found(results.setting, {"model": name})
            for shapes in {made.shapes for made in made_of(one)} or {()}
        }

    def _cut_once(self, cut: Cut, results: PerfDBResults) -> str | None:
        """Keep how it is cut; why it can't be."""
        try:
            with ExitStack() as kept:
                one = self._cut(kept, cut, set(), networks=False)
                results.put_cuts(one.cuts, one.facts)
        except InferBenchError as error:
            log.warning("a registered model can't be cut cut=%s why=%s", cut, error)
            return str(error)
        return None

    def cuts(self, setting: Setting) -> list[dict[str, Any]]:
        """How each model was cut last; see ``Names``."""
        current = Names(self._registered.values()).current(self._found(setting, {}))
        self._parts = {
            (one["model"], one["batch_size"], one["granularity"], one["shapes"]): set(one["parts"])
            for one in current
        }
        return current

    def _found(self, setting: Setting, of: dict[str, Any]) -> list[dict[str, Any]]:
        """How models were cut for a runtime and an instruction set, the newest first."""
        where = {"instruction_set": setting.instruction_set, "view": "runtime", "model": {"$exists": True}}
        where["runtime"] = of_runtime(setting.runtime_name)
        where |= {
            "precision": of_precision("fp32")
        }  # others are made by submissions, which compare the answers
        # These are of one view, runtime, instruction set and precision.
        fields = ("model", "batch_size", "granularity", "parts", "work", "made_from", "sources")
        return self._db.retrying(
            lambda: list(
                self._db.collection(DECOMPOSITIONS)
                .find(where | of, {**dict.fromkeys(fields, 1), "_id": 0})
                .sort(list(NEWEST_FIRST))
            ),
            "reading decompositions",
        )

    def networks(self, wanted: Sequence[Lacking], kept: ExitStack) -> list[ToMeasure]:
        """Their networks, each written once, into folders that ``kept`` removes."""
        left = {one.identity for one in wanted}
        made: list[ToMeasure] = []
        for cut in sorted({cut for one in wanted for cut in one.models if self.spec(cut[0])}):
            if not any(cut in one.models for one in wanted if one.identity in left):
                continue
            try:
                one = self._cut(kept, cut, self._parts[cut] - left)
            except InferBenchError as error:
                log.warning("a model can't be cut any more model=%s why=%s", cut[0], error)
                continue
            put_bricks(self._db, one.facts)
            mine = [each for each in one.missing if each.item.name in left]
            left -= {each.item.name for each in mine}
            made += mine
        return made

    def _cut(self, kept: ExitStack, cut: Cut, known: set[str], *, networks: bool = True) -> decompose.Output:
        name, batch_size, granularity, shapes = cut
        spec = self.spec(name)
        assert spec is not None
        run_id = f"bricks-night-{uuid.uuid4().hex[:12]}"
        kept.callback(shutil.rmtree, self._ctx.run_dir(run_id), ignore_errors=True)
        return asked_to_cut(
            self._ctx, known, run_id=run_id, job_id=run_id, job=job_of("bricks-nightly", spec), wholes=False,
            networks=networks, batch_sizes=(batch_size,), shapes=dict(shapes), runtime=self._runtime,
            granularity=(int(granularity) if granularity.isdigit() else granularity,),
        )  # fmt: skip
