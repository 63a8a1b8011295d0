"""What a serving backend can be asked for: one set of rules, for a submission's checks and for ``serve``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.away import away_findings, shared_findings
from inferbench_tasks.submission.context import context_findings
from inferbench_tasks.submission.conversing import beginnings, conversing_problems, too_many_turns
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.other_runtime import other_runtime_findings
from inferbench_tasks.submission.replicas import replica_findings
from inferbench_tasks.submission.sampled_trace import sampled_findings
from inferbench_tasks.submission.schema import PROMPTED, SHARED_MEMORY, JobSpec
from inferbench_tasks.submission.traced_batch import traced_batch_findings
from inferbench_tasks.submission.transport import transport_findings


def backend_findings(
    spec: JobSpec, backend: BackendAbilities, model_format: str | None, with_processors: Iterable[str] = ()
) -> Iterator[Finding]:
    """What the job's backend can't do of what the job asks.

    ``model_format`` is that of the model that will be served; None where that can't be said yet.
    ``with_processors`` names the backends that run processors, for the message; it is read only for that.
    """
    name = spec.serve.backend

    def has(field: str, value: str, able: tuple[str, ...], what: str) -> Iterator[Finding]:
        if value not in able:
            message = f"the backend {name} does not {what} {value!r}; it does: {', '.join(able)}"
            yield Finding((field, "serve.backend"), message)

    if model_format is not None:
        yield from has("convert.format", model_format, backend.formats, "serve the format")
    yield from has("load.protocol", spec.traffic.protocol, backend.protocols, "speak")
    if spec.traffic.client == "tritonclient" and spec.traffic.protocol == "grpc" and backend.tfs_predict:
        message = (
            f"tritonclient speaks KServe v2, and {name} TensorFlow Serving's Predict; use fast or reference"
        )
        yield Finding(("load.client", "serve.backend"), message)
    yield from has("serve.launcher", spec.serve.launcher, backend.launchers, "start by the launcher")
    device = spec.serve.device.kind
    yield from has("serve.device", device, backend.devices, "run on the device")
    if spec.serve.batching is not None and not backend.batching:
        message = f"the backend {name} has no dynamic batching; remove serve.batching"
        yield Finding(("serve.batching", "serve.backend"), message)
    yield from _slots(spec, backend)
    yield from _batch_size(spec)
    yield from _sizes(spec)
    yield from _streamed(spec)
    yield from _traced(spec, backend)
    yield from replica_findings(spec, backend)
    if spec.serve.framework is not None:
        yield from other_runtime_findings(spec, backend)
    if spec.load is not None and spec.load.away:
        yield from away_findings(spec, backend)
    if spec.load is not None and spec.load.client_hosts > 1:
        yield from shared_findings(spec)
    if spec.load is not None and spec.load.transport == SHARED_MEMORY:
        yield from transport_findings(spec, backend)
    if spec.processors is None or spec.processors.side != "server":
        return
    if not backend.server_processors:
        able = ", ".join(with_processors)
        hint = f", or a backend that does: {able}" if able else ""
        yield Finding(
            ("processors.side", "serve.backend"),
            f"the backend {name} takes tensors and runs no processors; use side: client{hint}",
        )
    elif spec.serve.launcher == "container":
        message = "the server's image holds no processors; use launcher: process, or side: client"
        yield Finding(("processors.side", "serve.launcher"), message)


def _streamed(spec: JobSpec) -> Iterator[Finding]:
    """What streams of tokens need, and what can't go with them."""
    load, prompts = spec.traffic, spec.requests.kind in PROMPTED
    if prompts != spec.streamed:
        yield Finding(
            ("requests.kind", "load.protocol"),
            f"{' and '.join(PROMPTED)} are sent with load.protocol: openai, and nothing else is; it is "
            f"requests.kind: {spec.requests.kind} and load.protocol: {load.protocol}",
        )
    if load.endpoint is not None and not spec.streamed:
        yield Finding(("load.endpoint", "load.protocol"), "goes with load.protocol: openai only")
    if spec.slo and spec.slo.each and not spec.streamed:
        yield Finding(("slo.each", "load.protocol"), "only streamed tokens have it (load.protocol: openai)")
    if not spec.streamed:
        return
    if load.samples_per_request != 1:
        yield Finding(("load.batch_size", "load.protocol"), "a request of a language model is one prompt")
    if load.engine != "inferbench":
        yield Finding(("load.engine", "load.protocol"), "MLPerf's LoadGen does not send with protocol openai")
    if load.client == "tritonclient":
        yield Finding(
            ("load.client", "load.protocol"), "tritonclient does not speak openai; use fast or reference"
        )
    if load.arrivals.kind == "max_rate":
        yield Finding(
            ("load.arrivals", "load.protocol"),
            "max_rate does not search with streams of tokens; `inferbench recommend --capacity FILE` does",
        )
    if spec.requests.conversing:
        for field, message in conversing_problems(load):
            yield Finding((field, "requests"), message)
    turns = spec.requests.turns  # those of a file are drawn when that is there
    if (
        turns is not None
        and not hasattr(turns, "path")
        and (problem := too_many_turns(beginnings(load, load.arrivals), turns))
    ):
        yield Finding(("requests.turns", "load.arrivals"), problem)
    moments = getattr(load.arrivals, "path", None)
    if spec.requests.kind == "trace" and moments not in (None, spec.requests.path):
        yield Finding(
            ("load.arrivals.path", "requests.path"),
            f"the moments are of {moments} and the tokens of {spec.requests.path}; name one file in both",
        )
    for block in ("processors", "evaluate", "trace", "share"):
        if getattr(spec, block) is not None:
            yield Finding(
                (block, "load.protocol"), f"{block} does not go with streams of tokens; leave it out"
            )


def _slots(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """What only servers of language models have; prompts and answers that fit into no slot."""
    serve = spec.serve
    if backend.streams and serve.instances != 1:
        message = f"the backend {serve.backend} has one copy of its model; leave serve.instances out"
        yield Finding(("serve.instances", "serve.backend"), message)
    for name in ("slots", "context_tokens", "prefix_cache"):
        if getattr(serve, name) is not None and not backend.slots:
            message = f"the backend {serve.backend} has no such setting; leave serve.{name} out"
            yield Finding((f"serve.{name}", "serve.backend"), message)
    if serve.dummy_weights and not backend.dummy_weights:
        message = f"the backend {serve.backend} reads the model's own weights; leave it out, or use vllm"
        yield Finding(("serve.dummy_weights", "serve.backend"), message)
    if backend.slots:
        yield from context_findings(spec, backend.slot_tokens)


def _traced(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """What can't be told of single requests."""
    if spec.trace is None:
        return
    yield from sampled_findings(spec)
    yield from traced_batch_findings(spec)
    name, levels = spec.serve.backend, backend.levels_of(spec.convert.format)
    if not levels:
        message = (
            f"the backend {name} tells nothing of single requests; our own server does, as in onnxruntime"
        )
        yield Finding(("trace", "serve.backend"), message)
    elif spec.trace.deepest is not None and spec.trace.deepest not in levels:
        why = backend.not_deeper(spec.convert.format)
        message = (
            f"the backend {name} does not tell of the level {spec.trace.deepest} of models in the format "
            f"{spec.convert.format}; it tells of: {', '.join(levels)}"
        ) + (f". {why}" if why else "")
        yield Finding(("trace.deepest", "serve.backend"), message)
    elif spec.trace.one_in is not None and backend.sends_spans is not None:
        message = (
            f"the backend {name} sends spans of every request, whichever are chosen, so a load would be traced as a "
            "whole; leave one_in out, and requests are asked one by one"
        )
        yield Finding(("trace.one_in", "serve.backend"), message)
    for field, value, able in (
        ("load.protocol", spec.traffic.protocol, ("http", "grpc")),
        ("serve.launcher", spec.serve.launcher, ("process",)),
        ("serve.device", spec.serve.device.kind, ("cpu", "gpu")),
    ):
        if value not in able:
            known = " or ".join(able)
            yield Finding(
                ("trace", field), f"requests are traced with {field}: {known} only, so far; it is {value}"
            )
    if spec.share is not None:
        yield Finding(("trace", "share"), "a trace is of a model by itself; leave share or trace out")


def _batch_size(spec: JobSpec) -> Iterator[Finding]:
    """A request larger than a batch would be refused every time."""
    batching = spec.serve.batching
    samples = spec.traffic.samples_per_request
    if batching is not None and samples > batching.max_batch_size:
        field = "load.batch_size" if samples == spec.traffic.batch_size else "load.arrivals"
        yield Finding(
            (field, "serve.batching.max_batch_size"),
            f"{samples} samples per request are more than serve.batching.max_batch_size "
            f"({batching.max_batch_size}) lets the server take",
        )


def _sizes(spec: JobSpec) -> Iterator[Finding]:
    """What samples of different sizes can't go with."""
    sizes = spec.requests.sizes
    if sizes is None:
        return
    if spec.processors is not None:
        yield Finding(("requests.sizes", "processors"), "processors decide the sizes; leave one of both out")
    if not any(size.drawn for size in sizes):
        return
    if spec.traffic.samples_per_request > 1:
        yield Finding(
            ("load.batch_size", "requests.sizes"),
            "samples of drawn sizes don't fit into one request; send one sample in each, or give numbers",
        )
    if spec.trace is not None or spec.share is not None:
        block = "trace" if spec.trace is not None else "share"
        yield Finding((block, "requests.sizes"), f"{block} goes with samples of one size; give numbers")
    if spec.convert.precision == "int8":
        yield Finding(
            ("convert.precision", "requests.sizes"),
            "scales are measured on samples of one size; give numbers",
        )
