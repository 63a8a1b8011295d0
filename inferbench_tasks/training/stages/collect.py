"""Stage ``collect``: from raw steps and monitors to one result with a verdict."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER
from inferbench_tasks.training.stages import generate, train
from inferbench_tasks.training.stages.meet import Output as Met

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.training.hosts.gathered import OfHost
    from inferbench_tasks.training.order import Answer

STAGE = Stage(needs=("generate", "meet", "train"), leased=True)
#: Of images that are read while it trains.
BROUGHT = (
    "the images were read where they were brought to, in the data directory of the device's host: what the storage is "
    "like that they lie on was not measured"
)


class Input(JobInput):
    """Everything the run has made so far; ``meet``: of a job on two hosts, of which this is the first."""

    job: TrainingJob
    generate: generate.Output
    meet: Met | None = None
    train: train.Output


class Output(Handle):
    """The result is in PerfDB under ``run_id`` and ``attempt``."""

    run_id: str
    verdict: Verdict


def run(inp: Input, ctx: Context) -> Output:
    """Work out the figures, judge them, and write the result once."""
    from inferbench_tasks.cluster.links import Links
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.networks.links.around import warnings
    from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance, SubmissionInfo
    from inferbench_tasks.perfdb.finalise import standing
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.training import certificate, networks, spending, step_spans, steps, stored_job
    from inferbench_tasks.training.hosts import gathered
    from inferbench_tasks.training.result import (
        EngineInfo,
        NetworkInfo,
        TrainingResult,
        TrainingSummary,
        has_figures,
    )

    job = inp.job
    db = PerfDB.connect(ctx.perfdb_uri, ctx.data_dir)
    attempt, earlier = standing(db, TrainingResult, inp.run_id, inp.attempt, has_figures)
    if earlier is not None:
        return Output(run_id=inp.run_id, verdict=earlier.verdict)
    inp = inp.model_copy(update={"attempt": attempt})
    ctx.progress(0, 2, "working out the figures")
    hosts = _hosts(inp)
    first, second = hosts[0], inp.train.second
    answers = [answer for host in hosts for answer in host.answers]
    steps_path = ctx.run_dir(inp.run_id) / FOLDER / steps.STEPS_FILE
    steps.write(answers, steps_path)
    hardware, window = first.facts.hardware, first.window()
    ledger = gathered.ledger(hosts, job)
    summary = summarise(answers, job)
    rate = summary["bare"]["samples_per_s"]
    summary["spending"] = (
        spending.of_training(answers, job, first.recording, hardware, rate)
        if second is None
        else spending.untold(gathered.UNTOLD_COST)
    )
    summary["memory"] = gathered.memory(hosts)
    proof = certificate.certify(
        answers, summary, ledger, job.data.read, inp.generate.samples, gathered.unlike(hosts)
    )
    if second is not None:
        proof["warnings"] += warnings(second.link, "training", "exchange")
    left_out = inp.generate.left_out
    if left_out and left_out.broken:
        named = "; ".join(left_out.named)
        proof["warnings"].append(f"{left_out.broken} image(s) of the folder were left out: {named}")
    brought = inp.generate.files is not None and inp.generate.files.brought
    if brought and job.data.where == "disk":
        proof["warnings"].append(BROUGHT)
    verdict = certificate.verdict_of(proof)
    devices = job.devices
    git_sha, dirty = environment.git_state()
    clock = {step_spans.CLOCK: time.time_ns() - time.monotonic_ns()}
    extensions: dict[str, Any] = {"measured_window": {"start_ns": window[0], "end_ns": window[1], **clock}}
    kept = [_kept_monitors(db, inp, host) for host in hosts]
    extensions["monitors"] = kept[0]
    held = [device for host in hosts for device in host.facts.devices]
    if held:
        extensions["devices"] = [device.model_dump(mode="json") for device in held]
    if second is not None:
        extensions["hosts"] = [gathered.stored(*one) for one in zip(hosts, kept, strict=True)]
        extensions["link"] = second.link.model_dump(mode="json")
        extensions["hosts_clock"] = gathered.clock(second, hosts[1].window())
    result = TrainingResult(
        run_id=inp.run_id,
        attempt=inp.attempt,
        job_id=inp.job_id,
        invocation_id=inp.run_id.rpartition(".")[0] or None,
        submission=SubmissionInfo(name=job.name, user=job.user, login=ctx.login, digest=job_digest(job)),
        benchmark=job.train.benchmark,
        cluster=gathered.cluster(held) if held else os.environ.get(settings.CLUSTER) or None,
        model=NetworkInfo(
            name=job.model.label,
            parameters=answers[0].parameter_count,
            image_size=job.data.image_size if networks.of(job).channels else None,
        ),
        data={
            **job.data.model_dump(mode="json"),
            "samples": inp.generate.samples,
            **({"left_out": left_out.model_dump()} if left_out else {}),
            **({"brought": True} if brought else {}),
        },
        loader=job.loader.model_dump(mode="json"),
        device=DeviceInfo(
            kind=devices.kind.kind,
            name=gathered.device_name(
                [environment.device_name(devices.kind.kind, host.facts.hardware) for host in hosts]
            ),
            cores=gathered.cores(hosts),
        ),
        engine=EngineInfo(
            kind=job.train.trainer,
            backend=devices.exchange,
            strategy=devices.strategy,
            processes=devices.ranks,
            threads=devices.threads,
            version=answers[0].versions.get("torch"),
            trainer_version=answers[0].versions.get("trainer"),
        ),
        summary=TrainingSummary(**summary),
        certificate=proof,
        verdict=verdict,
        environment={
            "hardware": hardware,
            "system": {
                **first.facts.system,
                "server_sandbox": inp.meet.sandbox if inp.meet else inp.train.sandbox,
            },
        },
        provenance=Provenance(
            git_sha=git_sha,
            versions=first.facts.versions,
            seeds={"train": job.train.seed},
            **{"git_dirty": dirty, "job": stored_job.stored(job)},
        ),
        extensions=extensions,
    )
    db.save_result(result, steps_path, ctx.lease)
    if second is not None:
        Links(db).tell_around(second.link)
    ctx.progress(2, 2, verdict.kind)
    return Output(run_id=inp.run_id, verdict=verdict)


def _hosts(inp: Input) -> list[OfHost]:
    """The hosts that trained, the job's own one first, which is this."""
    from inferbench_tasks.monitors.records import read_recording
    from inferbench_tasks.training.hosts.facts import HostFacts
    from inferbench_tasks.training.hosts.gathered import OfHost
    from inferbench_tasks.training.order import Answer

    trained, meeting = inp.train, inp.meet
    here = HostFacts.here(meeting.devices if meeting else trained.devices)
    parts = [(here, trained.answers, trained.monitors_path)]
    if meeting is not None and trained.second is not None:
        parts = [
            (here, meeting.answers, meeting.first.recording_path),
            (trained.second.facts, trained.answers, trained.monitors_path),
        ]
    return [
        OfHost(
            node=node,
            facts=facts,
            answers=[Answer.read(Path(path)) for path in answers],
            recording=read_recording(Path(monitors)),
            monitors_path=Path(monitors),
        )
        for node, (facts, answers, monitors) in enumerate(parts)
    ]


def _kept_monitors(db: PerfDB, inp: Input, host: OfHost) -> dict[str, Any]:
    name = "monitors.parquet" if host.node == 0 else f"monitors-{host.node}.parquet"
    return db.files.put(host.monitors_path, name, run_id=inp.run_id, attempt=inp.attempt).model_dump()


def summarise(answers: list[Answer], job: TrainingJob) -> dict[str, Any]:
    """The fields of ``TrainingSummary``."""
    from inferbench_tasks.training import figures

    instrumented = [
        e
        for answer in answers
        for e in answer.epochs
        if e.kind == "synchronised" and e.loader_cpu_s is not None
    ]
    return {
        "synchronised": figures.of_timing(answers, job.train.benchmark, job.devices.strategy),
        "bare": figures.bare(answers),
        "jade": figures.jade(answers),
        "events": figures.events(answers),
        "loss": figures.loss(answers),
        "probes": figures.probes(answers),
        "loader": {
            "parts": figures.loader_parts(answers),
            "start_ms": figures.loader_start_ms(answers),
            # Of all loader processes within the measured windows of the epochs with instruments.
            "cpu_s": sum(e.loader_cpu_s or 0.0 for e in instrumented) if instrumented else None,
            "wait_s": sum(e.loader_wait_s or 0.0 for e in instrumented) if instrumented else None,
        },
    }
