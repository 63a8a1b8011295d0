"""Stage ``collect``: from raw records and monitors to one result document with a verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.replicas import Balancer, Replica, several
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.networks.base import RECORD_FILE, find_network
from inferbench_tasks.perfdb.offered import BETWEEN_HOSTS
from inferbench_tasks.stages import convert, generate, max_rate, serve, unloaded
from inferbench_tasks.stages.base import Context, Stage, StageInput
from inferbench_tasks.stages.evaluate import ANSWERS_FILE
from inferbench_tasks.stages.evaluate import Output as Evaluated
from inferbench_tasks.stages.judgement import judge
from inferbench_tasks.stages.load import Output as Loaded
from inferbench_tasks.stages.replica_figures import of_replicas, per_device
from inferbench_tasks.stages.senders.all_hosts import of_all_hosts
from inferbench_tasks.stages.spread import recordings
from inferbench_tasks.stages.spread.balance import Output as Balanced
from inferbench_tasks.stages.stored_spans import stored_spans
from inferbench_tasks.stages.trace import Output as Traced
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.schema import JobSpec

if TYPE_CHECKING:
    from inferbench_tasks.metrics.base import ClientHost, ServerHost
    from inferbench_tasks.monitors.records import Recording
    from inferbench_tasks.perfdb.documents import DeviceInfo, ResultDocument, Summary
    from inferbench_tasks.perfdb.store import PerfDB

STAGE = Stage(
    needs=("generate", "convert", "serve", "balance", "load", "evaluate", "trace"),
    leased=True,
    unread=("generate.model",),
)
MONITORS_FILE = "monitors.parquet"
#: Files of a load of streamed tokens: their paths in its output -> their names in the result.
STREAM_FILES = {"streams_path": "streams", "chunks_path": "chunks"}
#: Paths on this machine mean nothing in a result.
_PLACES: dict[str, Any] = {
    **dict.fromkeys(("path", "reference_path", "labels_path", "samples_digest", "manifest"), True),
    "processing": {"sent_path", "answered_path", "raw_path"},
}


class Input(StageInput):
    """Everything the run has made so far."""

    generate: generate.Output
    convert: convert.Output
    serve: serve.Output
    balance: Balanced | None = None
    load: Loaded | None = None
    evaluate: Evaluated | None = None
    trace: Traced | None = None


class Output(Handle):
    """The result is in PerfDB under ``run_id`` and ``attempt``."""

    run_id: str
    verdict: Verdict


def run(inp: Input, ctx: Context) -> Output:
    """Summarise, judge, and write the result once."""
    from inferbench_tasks.cluster.links import Links
    from inferbench_tasks.manifests import lock
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.monitors.records import EMPTY, read_recording
    from inferbench_tasks.perfdb.documents import ResultDocument
    from inferbench_tasks.perfdb.finalise import standing
    from inferbench_tasks.perfdb.store import PerfDB

    if inp.balance is not None:
        inp = inp.model_copy(update={"serve": inp.balance.serve})
    ctx.progress(0, 3, "describing the environment")
    hosts = of_all_hosts(inp, inp.load, ctx) if inp.load and inp.load.away else None
    monitored = inp.load.monitors_path if inp.load else None
    recording = read_recording(Path(monitored)) if monitored else EMPTY
    if hosts is not None:
        recording = hosts.server
    hardware = environment.hardware()
    if inp.job.serve.device.kind == "gpu":
        hardware["gpu"] = environment.gpu_used(inp.serve.server.pid)
    surroundings = {
        "hardware": hardware,
        "system": {**environment.system(), "server_sandbox": inp.serve.server.sandbox},
    }
    apart: tuple[ServerHost, ...] = ()
    if inp.load and inp.serve.far_replicas:
        apart = recordings.hosts_of(inp.serve, inp.load.followed, recording, surroundings["hardware"])
        recording = recordings.together(apart)
    ctx.progress(1, 3, "working out the figures")
    if inp.load is None:
        summary = unloaded.figures(inp.serve, inp.evaluate, inp.job.slo)
        verdict = unloaded.verdict(inp.evaluate, inp.trace)
    else:
        summary = figures(
            inp,
            inp.load,
            recording,
            surroundings["hardware"],
            hosts.client if hosts else None,
            apart,
        )
        ledger = summary.model_dump()["interference"]
        answers = inp.evaluate.reasons if inp.evaluate else ()
        verdict = judge(inp.load.certificate, inp.load.stopped_early, ledger, inp.load.neighbours, answers)
    db = PerfDB.connect(ctx.perfdb_uri, ctx.data_dir)
    attempt, first = standing(db, ResultDocument, inp.run_id, inp.attempt, unloaded.has_figures)
    if first is not None:
        return Output(run_id=inp.run_id, verdict=first.verdict)
    inp = inp.model_copy(update={"attempt": attempt})
    ctx.progress(2, 3, "writing the result")
    extensions: dict[str, Any] = {
        "differences": {
            "convert_ratio": inp.convert.difference_ratio,
            "convert_tolerance_ratio": inp.convert.tolerance_ratio,
            "serve_ratio": inp.serve.difference_ratio,
        },
        "requests": inp.generate.requests.model_dump(exclude=_PLACES),
    }
    extensions["lock"] = lock.measured(
        inp.job,
        inp.generate.model,
        inp.convert.model,
        inp.generate.requests,
        inp.serve.backend,
        inp.generate.evaluation,
    )
    if inp.attempt > 1 and (before := db.find_results({"run_id": inp.run_id}, limit=1)):
        extensions["repeats"] = {"attempt": before[0].attempt, "verdict": str(before[0].verdict)}
    if inp.evaluate:
        stored = db.files.put(
            Path(inp.evaluate.answers_path), ANSWERS_FILE, run_id=inp.run_id, attempt=inp.attempt
        )
        extensions["evaluation"] = {**inp.evaluate.document, "answers": stored.model_dump()}
        if said := inp.evaluate.document.get("mlperf"):
            logs = [
                db.files.put(Path(log), Path(log).name, run_id=inp.run_id, attempt=inp.attempt).model_dump()
                for log in said["logs"]
            ]
            extensions["evaluation"]["mlperf"] = {**said, "logs": logs}
        if inp.evaluate.varied_path:
            path = Path(inp.evaluate.varied_path)
            stored = db.files.put(path, path.name, run_id=inp.run_id, attempt=inp.attempt)
            extensions["evaluation"]["varied"]["answers"] = stored.model_dump()
    if inp.trace:
        extensions["trace"] = stored_spans(
            db,
            inp.trace,
            inp.run_id,
            inp.attempt,
            samples=Path(inp.load.samples_path) if inp.load else None,
            needed=inp.load is None and inp.evaluate is None,
        )
    if inp.load:
        extensions |= of_load(inp, inp.load, ctx, db)
        extensions |= of_replicas(inp.serve.replicas, inp.serve.balancer, inp.load.replica_samples)
        if apart:
            kept = recordings.stored(db, inp, inp.serve, inp.load, apart, recording, ctx.run_dir(inp.run_id))
            extensions["monitors"] = kept.pop("monitors")
            extensions["replicas"] |= kept
    if hosts is not None:
        extensions |= hosts.stored(db, inp)
    document = describe(inp, summary, surroundings, verdict, extensions, ctx.login)
    db.save_result(document, Path(inp.load.samples_path) if inp.load else None, ctx.lease)
    for link in inp.load.links if inp.load else ():
        Links(db).tell_around(link)
    ctx.progress(3, 3, verdict.kind)
    return Output(run_id=inp.run_id, verdict=verdict)


def of_load(inp: Input, loaded: Loaded, ctx: Context, db: PerfDB) -> dict[str, Any]:
    """What a result says of its load beside the figures, with the files that go with it."""

    def put(path: str | Path, name: str | None = None) -> dict[str, Any]:
        stored = db.files.put(Path(path), name or Path(path).name, run_id=inp.run_id, attempt=inp.attempt)
        return stored.model_dump()

    extensions: dict[str, Any] = {
        "measured_window": {
            "start_ns": loaded.measure_start_ns,
            "end_ns": loaded.measure_end_ns,
            "epoch_offset_ns": loaded.epoch_offset_ns,
        },
        "network": emulation(inp.job.traffic.network, ctx.run_dir(inp.run_id)),
    }
    if loaded.quiet and loaded.away is None:
        extensions["quiet"] = loaded.quiet
    if inp.job.share:
        extensions["sharing"] = {"method": inp.job.share.method, "neighbours": list(loaded.neighbours)}
    if loaded.accuracy:
        extensions["accuracy"] = loaded.accuracy.model_dump(include={"samples_digest", "right"})
    if loaded.tokens:
        extensions["streams"] = {name: put(loaded.tokens[path]) for path, name in STREAM_FILES.items()}
    if loaded.monitors_path and not loaded.followed:
        extensions["monitors"] = put(loaded.monitors_path, MONITORS_FILE)
    if loaded.mlperf:
        extensions["mlperf"] = {**loaded.mlperf, "logs": [put(log) for log in loaded.mlperf["logs"]]}
    if loaded.max_rate:
        records = max_rate.other_records(ctx.run_dir(inp.run_id), loaded.max_rate)
        extensions["probes"] = [put(path, f"probe-{path.parent.name}.parquet") for path in records]
    return extensions


def figures(
    inp: Input,
    loaded: Loaded,
    recording: Recording,
    hardware: dict[str, Any],
    client: ClientHost | None = None,
    hosts: tuple[ServerHost, ...] = (),
) -> Summary:
    """All figures of the run: the load's, the monitors', then the metrics that are made from both."""
    from inferbench_tasks.backends.base import BACKENDS
    from inferbench_tasks.loadgen import objective
    from inferbench_tasks.loadgen.client_share import withhold
    from inferbench_tasks.loadgen.records import read_samples
    from inferbench_tasks.loadgen.summary import summarise_window
    from inferbench_tasks.loadgen.window import Window
    from inferbench_tasks.metrics.base import Measured
    from inferbench_tasks.metrics.derive import derive
    from inferbench_tasks.metrics.server_counters import server_counters
    from inferbench_tasks.monitors.usage import usage
    from inferbench_tasks.perfdb.documents import Summary

    start_ns, end_ns = loaded.measure_start_ns, loaded.measure_end_ns
    window = Window.of(read_samples(Path(loaded.samples_path)), start_ns, end_ns)
    summary = summarise_window(window, inp.job.slo)
    withhold(summary, loaded.certificate.get("withheld", {}))
    # Down to what it becomes once it is warm: a median request.
    steady_ms = summary["e2e_latency_ms"]["p50"]
    summary["cold_start_ms"] = {**inp.serve.cold_start.model_dump(), "steady_ms": steady_ms}
    summary["resources"] = usage(recording, start_ns, end_ns)
    if client is not None:
        of = {role: usage(host.recording, start_ns, end_ns) for role, host in client.by_role.items()}
        summary["resources"] |= {
            f"{role.replace(' ', '_')}{suffix}": used.get(source)
            for role, used in of.items()
            for suffix, source in (("", "client"), ("_host", "host"))
        }
    summary["resources"] |= recordings.of_each_host(hosts, start_ns, end_ns)
    summary["accuracy_ratio"] = loaded.accuracy_ratio
    if loaded.accuracy:
        summary["accuracy"] = loaded.accuracy.summary()
    if loaded.tokens:
        tokens = {name: value for name, value in loaded.tokens.items() if name not in STREAM_FILES}
        counters = BACKENDS.load(inp.job.serve.backend).token_counters
        tokens["server_counters"] = server_counters(
            recording, counters, start_ns, end_ns, tokens["reasons"].get("ttft_ms")
        )
        summary |= {"tokens": tokens, "goodput_rps": tokens["goodput_rps"] if tokens["each"] else None}
    if inp.evaluate:
        summary["quality"] = inp.evaluate.document["under_load"].get("measures", {})
    if loaded.max_rate:
        summary["max_rate"] = loaded.max_rate
    if (processing := inp.generate.requests.processing) and processing.client_ms:
        summary["client_processing_ms"] = processing.client_ms
    trace = inp.serve.backend.drawn.get("trace") or {}
    beside = len(inp.job.share.beside) if inp.job.share else 0
    device = inp.job.serve.device
    balancer = inp.serve.balancer
    measured = Measured(
        window,
        recording,
        summary,
        hardware,
        device,
        trace.get("file"),
        beside,
        client,
        balancer_cores=balancer.cores if balancer else (),
        balancer_own_cores=balancer.own_cores if balancer else 0,
        device_cores=tuple(core for replica in inp.serve.replicas_here for core in replica.cores),
        hosts=hosts,
    )
    figures = derive(measured)
    if inp.serve.replicas:
        figures["per_device"] = per_device(
            figures, inp.serve.replicas, loaded.replica_samples, (end_ns - start_ns) / 1e9
        )
    # Again, now that every figure is there that may be bounded.
    figures["slo"] = objective.judge(inp.job.slo, figures, window)
    return Summary.model_validate(figures)


def describe(
    inp: Input,
    summary: Summary,
    surroundings: dict[str, Any],
    verdict: Verdict,
    extensions: dict[str, Any],
    login: str | None = None,
) -> ResultDocument:
    """The result document: what was asked for and by whom, what ran, what came out."""
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.perfdb.documents import (
        BackendRecord,
        LoadInfo,
        ModelInfo,
        Provenance,
        ResultDocument,
        SubmissionInfo,
    )

    job, model = inp.job, inp.convert.model
    git_sha, dirty = environment.git_state()
    return ResultDocument(
        run_id=inp.run_id,
        attempt=inp.attempt,
        job_id=inp.job_id,
        invocation_id=inp.run_id.rpartition(".")[0] or None,
        submission=SubmissionInfo(name=job.name, user=job.user, login=login, digest=job_digest(job)),
        model=ModelInfo(
            **{
                **model.model_dump(include=set(ModelInfo.model_fields)),
                "licence": model.licence,
                "accuracy_ratio": inp.generate.model.accuracy_ratio,
                "source_digest": inp.generate.model.digest,
            }
        ),
        format=model.format,
        backend=BackendRecord(**inp.serve.backend.model_dump()),
        device=device_of(
            job.serve.device,
            surroundings["hardware"],
            inp.serve.replicas,
            inp.serve.balancer,
            recordings.hardware_of(inp.serve.far_replicas),
        ),
        load=LoadInfo(
            **load_document(
                job,
                inp.load.away.way if inp.load and inp.load.away else None,
                recordings.host_names(inp.serve.replicas),
            )
        ),
        summary=summary,
        certificate=inp.load.certificate if inp.load else {},
        verdict=verdict,
        environment=surroundings,
        provenance=Provenance(
            git_sha=git_sha,
            versions=environment.versions() | _of_runtime(inp),
            seeds={"load": job.traffic.seed},
            **{"git_dirty": dirty, "job": job.model_dump(mode="json")},
        ),
        extensions=extensions,
    )


def _of_runtime(inp: Input) -> dict[str, str | None]:
    """The package whose version was named, with the one that the server told; nothing where the installed one ran."""
    framework = inp.job.serve.framework
    return {Requirement.parse(framework).name: inp.serve.backend.version} if framework else {}


def load_document(job: JobSpec, way: str | None = None, replica_hosts: str | None = None) -> dict[str, Any]:
    """The submission's ``load`` as a result has it, with what only makes it comparable: see ``perfdb.offered``.

    ``way``: from which other hosts to which it went (``Away.way``), where it did; None before it is known.
    ``replica_hosts``: likewise those between which it was handed on to replicas.
    """
    from inferbench_tasks.submission.prompt_words import prompt_words, size_words

    if job.load is None:
        return unloaded.document_of(job)
    document = job.load.model_dump(mode="json") | {"batch_size": job.load.samples_per_request}
    if job.load.away:  # a request that crosses a network is no request within a host, whatever else is alike
        document["network"] = f"{BETWEEN_HOSTS} {way}" if way else BETWEEN_HOSTS
    if job.serve.apart:
        document["network"] = f"{BETWEEN_HOSTS} {replica_hosts}" if replica_hosts else BETWEEN_HOSTS
    # Two contents under one name are two loads; the reader of the submission wrote down which it was.
    if digest := job.files.get(getattr(job.load.arrivals, "path", "")):
        document["arrivals"] |= {"digest": digest}
    if job.load.max_requests is not None and not job.load.arrivals.stationary:
        document["arrivals"] |= {"max_requests": job.load.max_requests}
    if (words := prompt_words(job.requests)) is not None:
        document["arrivals"] |= {"prompts": words}
        if digest := job.files.get(job.requests.path or ""):
            document["arrivals"] |= {"prompts_digest": digest}
    if (words := size_words(job.requests)) is not None:
        document["arrivals"] |= {"sizes": words}
    if isinstance(job.load.arrivals, MaxRate) and job.slo:
        from inferbench_tasks.loadgen.rate_probe import objective_text

        document["arrivals"] |= {"objective": objective_text(job.slo)}
    return document


def emulation(name: str, folder: Path) -> dict[str, Any]:
    """How the network between client and server was made, with its figures; ``folder``: the run's."""
    network = find_network(name)
    record = folder / RECORD_FILE
    facts = json.loads(record.read_text()) if network and record.exists() else {"emulation": None}
    return {"name": name, **facts, **(network.model_dump(exclude={"name"}) if network else {})}


def device_of(
    device: DeviceSpec,
    hardware: dict[str, Any],
    replicas: Sequence[Replica],
    balancer: Balancer | None = None,
    others: Sequence[dict[str, Any]] = (),
) -> DeviceInfo:
    """Of several the name says how many, and what else tells them from others (``several``); ``product`` is theirs.

    ``others``: the machines of the replicas beside the first, where each has one of its own; ``hardware``: the first's.
    """
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.perfdb.documents import DeviceInfo

    name = environment.device_name(device.kind, hardware)
    cores = environment.granted_cores(hardware)
    if not replicas:
        return DeviceInfo(kind=device.kind, name=name, cores=cores, **{"asked": str(device)})
    if others:
        names = {environment.device_name(device.kind, machine) for machine in (hardware, *others)}
        name = None if None in names else " and ".join(sorted(one for one in names if one is not None))
    devices = [
        {"device_id": replica.device_id, "cores": list(replica.cores)}
        | ({"host": replica.host} if replica.host else {})
        for replica in replicas
    ]
    cores_of_each = [len(replica.cores) for replica in replicas]
    return DeviceInfo(
        kind=device.kind,
        name=several(cores_of_each, name, balancer.own_cores if balancer else 0, 1 + len(others)),
        cores=float(sum(cores_of_each)),
        **{"asked": str(device), "count": len(replicas), "product": name, "devices": devices},
    )
