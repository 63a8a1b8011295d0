"""The results of all runs of an invocation: of models what is predicted, of shards what they measured."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs import cutting, shard_files
from inferbench_tasks.brick_jobs.cutting import CutModel, Cutting
from inferbench_tasks.brick_jobs.device_time import device_time
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.measured_on import MeasuredOn, measured_on, this_host
from inferbench_tasks.brick_jobs.members import entries_of, name_of, run_of
from inferbench_tasks.brick_jobs.places import place_here
from inferbench_tasks.brick_jobs.predictions import missing, predictions
from inferbench_tasks.brick_jobs.result import BricksResult, without_figures
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.summary import summary
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.contracts.verdict import INTERFERENCE, VALID, Reason, Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance, RunDocument, SubmissionInfo
from inferbench_tasks.perfdb.finalise import finalise
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.sweep import Job, expand


def conclude(
    db: PerfDB, submission: SubmissionBase, invocation_id: str, run_ids: Sequence[str], ctx: Context
) -> dict[str, str]:
    """Write the result of each run that has none, or whose result changed since; run id -> verdict."""
    jobs = expand(submission)
    started = {run.run_id: run for run in db.find_runs({"_id": {"$in": list(run_ids)}})}
    verdicts = {}
    for job, run_id in zip(jobs, run_ids, strict=True):
        spec = job.spec
        assert isinstance(spec, BricksJob) and spec.part is not None
        if spec.part.role == "cut":
            _point(db, jobs, run_ids, job, run_id, started, ctx)
    finalise(db, run_ids, BricksResult, without_figures, "generate")
    for run_id in run_ids:
        if (latest := _latest(db, run_id)) is not None:
            verdicts[run_id] = str(latest.verdict)
    return verdicts


class _Writer:
    """Writes results; one that says the same as the last is not written again."""

    def __init__(
        self, db: PerfDB, started: Mapping[str, Any], ctx: Context, job: BricksJob, setting: Setting
    ) -> None:
        self._db, self._started, self._ctx = db, started, ctx
        self._asked, self._setting = job, setting

    def write(self, job: Job[Any], run_id: str, verdict: Verdict, on: MeasuredOn, **fields: Any) -> None:
        """Of a run that was started; one that failed by itself keeps its own verdict. ``on``: where it was timed."""
        run = self._started.get(run_id)
        if run is None or run.status in ("failed", "cancelled"):
            return
        latest = _latest(self._db, run_id)
        result = BricksResult(
            run_id=run_id,
            attempt=latest.attempt + 1 if latest else 1,
            job_id=job.job_id,
            invocation_id=run_id.rpartition(".")[0] or None,
            submission=SubmissionInfo(
                name=job.spec.name, user=job.spec.user, login=self._ctx.login, digest=job_digest(job.spec)
            ),
            verdict=verdict,
            device=_device(self._asked, self._setting),
            environment=on.environment,
            provenance=Provenance(
                git_sha=on.git[0],
                versions=on.versions,
                **{"git_dirty": on.git[1], "job": job.spec.model_dump(mode="json")},
            ),
            **fields,
        )
        changing = {"attempt", "created_at", "clock", "provenance", "environment"}
        if latest is not None and latest.model_dump(exclude=changing) == result.model_dump(exclude=changing):
            return
        self._db.save_result(result)
        self._db.end_run(run_id, verdict)


def _point(
    db: PerfDB, jobs: Sequence[Job[Any]], run_ids: Sequence[str], cut_job: Job[Any], cut_run: str,
    started: Mapping[str, Any], ctx: Context,
) -> None:  # fmt: skip
    """All runs of one point of the sweep."""
    spec: BricksJob = cut_job.spec
    part = spec.part
    assert part is not None
    by_run = dict(zip(run_ids, jobs, strict=True))
    found = cutting.read(ctx.run_dir(cut_run))
    if found is None:
        return
    write = _Writer(db, started, ctx, spec, found.setting).write
    shards = {
        at: out
        for at in range(part.shards)
        if (out := _output(started.get(run_of(cut_run, part, "shard", at)))) is not None
    }
    place, own = place_here(db, ctx.data_dir), this_host()

    def on(homes: Collection[str]) -> MeasuredOn:
        return measured_on(list(shards.values()), homes, place, own)

    results = PerfDBResults(db, found.setting, place=place)
    wanted = [name for cut in found.cuts for name in (*cut.parts, cut.whole)]
    setting = found.setting.model_dump(mode="json")
    # What was to be measured is taken from these runs alone: older times don't stand in for what failed now.
    todo = {one.item.name for one in found.todo}
    known = results.get_many((name for name in wanted if name not in todo), found.wanted)
    known |= results.of_runs([run_of(cut_run, part, "shard", at) for at in range(part.shards)], todo)
    made = predictions(found.cuts, known, spec.validate.calibrate_on, own=place)
    for at, entry in enumerate(entries_of(spec.models)):
        run_id = run_of(cut_run, part, "model", at)
        cuts = [cut for cut in found.cuts if cut.at == at]
        name = cuts[0].name if cuts else name_of(entry.model)
        verdict = model_verdict(at, name, cuts, found, shards, known)
        used = [known[n] for cut in cuts for n in (*cut.parts, cut.whole) if n in known]
        model = {"name": name} | ({"digest": cuts[0].digest, "task": cuts[0].task} if cuts else {})
        homes = {one.home for one in used} or {place.home}  # what could not be cut was tried here
        write(
            by_run[run_id], run_id, verdict, on(homes), role="model", setting=setting,
            predictions=made.get(at, []),
            model={**model, "copies": entry.copies},
        )  # fmt: skip
    counts = {**_counts(found), "summary": summary(found.cuts, known, made)}
    counts["device_time"] = device_time(found, shards, made)
    write(cut_job, cut_run, VALID, own, role="cut", setting=setting, counts=counts)
    for at, out in shards.items():
        run_id = run_of(cut_run, part, "shard", at)
        counts = {"stored": len(out["stored"]), **{name: out[name] for name in _OF_SHARDS if name in out}}
        where = measured_on([out], {out.get("home") or ""}, place, own)
        write(
            by_run[run_id], run_id, _shard_verdict(out), where, role="shard", setting=setting, counts=counts
        )
    if todo <= {name for name, result in known.items() if result.disturbed is None}:
        folders = [("model", at, cutting.NETWORKS) for at in range(part.models)]
        folders += [("shard", at, shard_files.FOLDER) for at in shards]
        for role, at, folder in folders:  # nobody measures them again
            shutil.rmtree(ctx.run_dir(run_of(cut_run, part, role, at)) / folder, ignore_errors=True)
    for at in range(part.shards):
        if at not in shards and not found.of_shard(at):
            run_id = run_of(cut_run, part, "shard", at)
            write(by_run[run_id], run_id, VALID, own, role="shard", setting=setting, counts={"stored": 0})


def _device(job: BricksJob, setting: Setting) -> DeviceInfo:
    """What a point's bricks were timed on: the kind that the job asks for, the name that their times are kept under,
    and the cores that they had, which are the same on all hosts."""
    return DeviceInfo(kind=job.needed_device().kind, name=setting.processor, cores=float(setting.cores))


_OF_SHARDS = (
    "failed", "rounds", "good_rounds", "levels", "seconds", "wholes_s", "earlier_s", "steal_ratios", "stolen_rounds",
)  # fmt: skip


def model_verdict(
    at: int, name: str, cuts: Sequence[CutModel], found: Cutting, shards: Mapping[int, Any],
    known: Mapping[str, Result],
) -> Verdict:  # fmt: skip
    """Of a model's run: what it failed with, what of it has no time, or what disturbed those that it has."""
    if at in found.failed:
        return Verdict.failed("decompose", f"{name}, {found.failed[at]}")
    absent = list(dict.fromkeys(part for cut in cuts for part in missing(cut, known)))
    failures = {name: why for out in shards.values() for name, why in out["failed"].items()}
    todo = {one.item.name: one for one in found.todo}
    for one in (*absent, *(cut.whole for cut in cuts)):
        if one in failures:
            layers = todo[one].layers if one in todo else one
            return Verdict.failed("measure", f"{layers}: {failures[one]}")
    if not absent:
        disturbed = {known[n].disturbed for cut in cuts for n in (*cut.parts, cut.whole) if n in known}
        disturbed.discard(None)
        return Verdict.judged(
            [Reason(check=f"{INTERFERENCE}.level", text=str(why)) for why in sorted(map(str, disturbed))]
        )
    text = f"{len(absent)} of its bricks have no time: {_whys(absent, todo, shards)}"
    return Verdict.judged([Reason(check="bricks.missing", figure=float(len(absent)), bound=0.0, text=text)])


def _whys(absent: Sequence[str], todo: Mapping[str, Any], shards: Mapping[int, Any]) -> str:
    whys = {}
    for name in absent:
        shard = todo[name].shard if name in todo else None
        out = shards.get(shard) if shard is not None else None
        whys[shard] = f"shard {shard} " + (
            f"was disturbed ({out['disturbed']})" if out and out["disturbed"] else "did not end"
        )
    return "; ".join(whys.values())


def _shard_verdict(out: Mapping[str, Any]) -> Verdict:
    if out["disturbed"]:
        return Verdict.judged([Reason(check=f"{INTERFERENCE}.level", text=out["disturbed"])])
    return VALID


def _counts(found: Cutting) -> dict[str, Any]:
    return {
        "bricks": sum(len(cut.parts) for cut in found.cuts),
        "unique": len({part for cut in found.cuts for part in cut.parts}),
        "todo": len(found.todo),
        "wholes": sum(one.item.whole for one in found.todo),
        "reused": found.reused,
        "failed": {str(at): why for at, why in found.failed.items()},
        "estimate_s": sum(one.estimate_s for one in found.todo),
    }


def _output(run: RunDocument | None) -> dict[str, Any] | None:
    """What a shard's measurement told, wherever it ran; None where it did not come to its end."""
    done = [one for one in run.stages if one.stage == "measure" and one.state == "done"] if run else []
    return done[-1].output if done else None


def _latest(db: PerfDB, run_id: str) -> BricksResult | None:
    return next(iter(db.results_of(BricksResult, {"run_id": run_id}, (("attempt", -1),), limit=1)), None)
