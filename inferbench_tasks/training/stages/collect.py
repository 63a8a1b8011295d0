"""Stage ``collect``: from raw steps and monitors to one result with a verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.stages import generate, train

if TYPE_CHECKING:
    from inferbench_tasks.training.order import Answer

STAGE = Stage(needs=("generate", "train"), leased=True)


class Input(JobInput):
    """Everything the run has made so far."""

    job: TrainingJob
    generate: generate.Output
    train: train.Output


class Output(Handle):
    """The result is in PerfDB under ``run_id`` and ``attempt``."""

    run_id: str
    verdict: Verdict


def run(inp: Input, ctx: Context) -> Output:
    """Work out the figures, judge them, and write the result once."""
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.monitors.records import read_recording
    from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance, SubmissionInfo
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.training import (
        certificate,
        disturbance,
        memory_figures,
        networks,
        spending,
        step_spans,
        steps,
        stored_job,
    )
    from inferbench_tasks.training.order import Answer
    from inferbench_tasks.training.result import EngineInfo, NetworkInfo, TrainingResult, TrainingSummary

    job = inp.job
    answers = [Answer.model_validate_json(Path(path).read_text()) for path in inp.train.answers]
    ctx.progress(0, 2, "working out the figures")
    steps_path = Path(inp.train.answers[0]).with_name(steps.STEPS_FILE)
    steps.write(answers, steps_path)
    recording = read_recording(Path(inp.train.monitors_path))
    hardware = environment.hardware()
    epochs = [(epoch.window_start_ns, epoch.window_end_ns) for answer in answers for epoch in answer.epochs]
    window = disturbance.window_of(epochs) or (
        answers[0].epochs[0].started_ns,
        answers[0].epochs[-1].ready_ns,
    )
    ledger = disturbance.ledger(recording, answers, job, hardware)
    summary = summarise(answers, job)
    rate = summary["bare"]["samples_per_s"]
    summary["spending"] = spending.of_training(answers, job, recording, hardware, rate)
    summary["memory"] = memory_figures.of_epochs(answers, recording)
    proof = certificate.certify(answers, summary, ledger, job.data.read, inp.generate.samples)
    left_out = inp.generate.left_out or {}
    if left_out.get("broken"):
        named = "; ".join(left_out["named"])
        proof["warnings"].append(f"{left_out['broken']} image(s) of the folder were left out: {named}")
    verdict = certificate.verdict_of(proof)
    devices = job.devices
    git_sha, dirty = environment.git_state()
    db = PerfDB.connect(ctx.perfdb_uri, ctx.data_dir)
    clock = {step_spans.CLOCK: time.time_ns() - time.monotonic_ns()}
    extensions: dict[str, Any] = {"measured_window": {"start_ns": window[0], "end_ns": window[1], **clock}}
    stored = db.files.put(
        Path(inp.train.monitors_path), "monitors.parquet", run_id=inp.run_id, attempt=inp.attempt
    )
    extensions["monitors"] = stored.model_dump()
    if inp.train.devices:
        extensions["devices"] = [device.model_dump(mode="json") for device in inp.train.devices]
    result = TrainingResult(
        run_id=inp.run_id,
        attempt=inp.attempt,
        job_id=inp.job_id,
        invocation_id=inp.run_id.rpartition(".")[0] or None,
        submission=SubmissionInfo(name=job.name, user=job.user, login=ctx.login, digest=job_digest(job)),
        benchmark=job.train.benchmark,
        cluster=_cluster(inp.train.devices),
        model=NetworkInfo(
            name=job.model.label,
            parameters=answers[0].parameter_count,
            image_size=job.data.image_size if networks.of(job).channels else None,
        ),
        data={
            **job.data.model_dump(mode="json"),
            "samples": inp.generate.samples,
            **({"left_out": left_out} if left_out else {}),
        },
        loader=job.loader.model_dump(mode="json"),
        device=DeviceInfo(
            kind=devices.kind.kind,
            name=environment.device_name(devices.kind.kind, hardware),
            cores=environment.granted_cores(hardware),
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
            "system": {**environment.system(), "server_sandbox": inp.train.sandbox},
        },
        provenance=Provenance(
            git_sha=git_sha,
            versions=environment.versions(),
            seeds={"train": job.train.seed},
            **{"git_dirty": dirty, "job": stored_job.stored(job)},
        ),
        extensions=extensions,
    )
    db.save_result(result, steps_path)
    ctx.progress(2, 2, verdict.kind)
    return Output(run_id=inp.run_id, verdict=verdict)


def _cluster(devices: Sequence[HeldDevice]) -> str | None:
    """That of the worker's device, or of this machine where none was leased; None without a name."""
    name = devices[0].cluster if devices else os.environ.get(settings.CLUSTER, "")
    return name or None


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
