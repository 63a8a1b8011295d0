"""What is not predicted of a serving job, and which field says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.spec import PRECISIONS
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.queueing.server import MAX_WAITING
from inferbench_tasks.submission.document import Document
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import Job

#: The only value of each field whose server, or path to it, is modelled; in the order of the YAML.
_ONLY: tuple[tuple[str, Any, str], ...] = (
    ("convert.format", "onnx", "bricks are of ONNX Runtime"),
    ("requests.sizes", None, "bricks are timed at one size of each input; give free ones by --shape"),
    ("serve.backend", "onnxruntime", "bricks are of ONNX Runtime, and the queue is that of our own server"),
    ("serve.framework", None, "bricks are timed with the runtime that is installed here"),
    ("serve.launcher", "process", "what a container adds is not measured"),
    ("serve.devices", 1, "replicas behind a balancer are not modelled, nor what it adds"),
    (
        "load.from",
        "server_host",
        "a load from another host is not within this one: what a network adds is not modelled",
    ),
    ("load.network", "lan", "what a network adds is not modelled"),
    ("load.transport", "network", "what is sent through shared memory was not timed"),
    ("load.engine", "inferbench", "MLPerf's LoadGen has a sender of its own"),
    ("load.connections", None, "where requests wait for a connection is not modelled"),
    ("processors", None, "what processors add is not measured"),
    ("share", None, "what models that share a device do to each other is not modelled"),
)
#: Arrivals that have no percentile to be predicted, and why.
_ARRIVALS = {
    "max_rate": "it looks for the capacity, which is predicted of any other arrivals; give poisson",
    "offline": "its latencies are its length; the capacity is predicted of any other arrivals, give poisson",
}


def findings(job: JobSpec, cores: int | None) -> Iterator[Finding]:
    """All that keeps a job from being predicted. ``cores``: of the device that it would run on; None: not looked at."""
    if job.load is None:
        yield Finding(("load",), "without a load there is nothing to predict; add one")
        return
    if job.streamed:
        yield Finding(("load.protocol",), "language models' answers are streams of tokens: not predicted")
        return
    if job.serve.device.kind != "cpu":
        yield Finding(("serve.device",), f"bricks are timed on the CPU; it is {job.serve.device}")
    for field, only, why in _ONLY:
        value: Any = job
        for name in field.split("."):
            value = getattr(value, name)
        if value != only:
            allowed = "left out" if only is None else f"{only}"
            yield Finding((field,), f"not predicted: {why}; allowed here: {allowed}")
    if job.convert.precision not in PRECISIONS:
        yield Finding(("convert.precision",), f"not predicted: bricks are of {', '.join(PRECISIONS)}")
    kind = job.traffic.arrivals.kind
    if kind in _ARRIVALS:
        yield Finding(("load.arrivals.kind",), f"{kind} is not predicted: {_ARRIVALS[kind]}")
    users = getattr(job.load.arrivals, "concurrency", 0)
    if users > MAX_WAITING:
        yield Finding(
            ("load.arrivals.concurrency",),
            f"{users:,} users are not predicted: the queue has {MAX_WAITING:,} places, and what becomes of those who "
            "are refused is not modelled",
        )
    busy = job.serve.instances * job.serve.threads
    if cores is not None and busy > cores:
        yield Finding(
            ("serve.instances",),
            f"{job.serve.instances} instances with {job.serve.threads} threads each need {busy} cores, there are "
            f"{cores}: how they slow each other down is not modelled",
        )


def refuse(document: Document, jobs: Sequence[Job[JobSpec]], cores: int | None) -> None:
    """SubmissionError with all that is not predicted of a submission's jobs, each with its line where there is a text.

    ``cores``: see ``findings``.
    """
    problems = {}
    for job in jobs:
        for finding in findings(job.spec, cores):
            field = finding.fields[0]
            swept = [path for path in document.lines if path[:1] == ("sweep",) and path[-1] == field]
            path = swept[0] if swept else tuple(field.split("."))
            problems[field, finding.message] = document.problem(path, finding.message)
    if problems:
        raise SubmissionError(list(problems.values()))
