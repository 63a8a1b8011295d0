"""A load without a submission: what ``inferbench load`` does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.backends.probes.base import Refused
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.link import LinkAround
from inferbench_tasks.contracts.verdict import INTERFERENCE, Reason, Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.token_counter import token_counter
from inferbench_tasks.loadgen.ceiling import Ceiling, ceiling, check_ceiling
from inferbench_tasks.loadgen.certificate import Certificate
from inferbench_tasks.loadgen.chunk_ceiling import check_chunk_ceiling, chunk_ceiling_check
from inferbench_tasks.loadgen.client_share import withhold
from inferbench_tasks.loadgen.evidence import ended_early
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import BatchShare, LoadPlan
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.target import inputs_for, parse_arrivals, parse_url
from inferbench_tasks.loadgen.token_load import (
    TokenOptions,
    parse_target,
    token_figures,
    write_requests,
)
from inferbench_tasks.loadgen.token_load import words as token_words
from inferbench_tasks.loadgen.token_summary import Each
from inferbench_tasks.networks.links.around import warnings as link_warnings
from inferbench_tasks.submission.conversing import conversing_problems
from inferbench_tasks.submission.schema import CLIENT_NAMES, LoadSpec

#: What holds against every load of this kind, however right its stimulus was.
UNWATCHED = Reason(
    check="unwatched",
    text="nobody watched the machines of server and sender, as `inferbench run` does: what else happened on them is "
    "not known",
).within(INTERFERENCE, INTERFERENCE)

Show = Callable[[str, float, float, Snapshot | None], None]


@dataclass(frozen=True)
class Asked:
    """The command line, not yet checked; ``options`` are those of ``LoadSpec``."""

    url: str
    arrivals: str
    options: dict[str, Any]
    model: str | None = None
    model_version: str | None = None
    protocol: str | None = None
    input_file: Path | None = None
    shapes: tuple[str, ...] = ()
    batch_size: str = "1"
    binary: bool = True
    max_backlog: int | None = None
    target_latency_ms: float | None = None
    #: Of ``protocol: openai``.
    tokens: TokenOptions | None = None


@dataclass(frozen=True)
class Result:
    """What came out; ``problem`` says why the load could not go on, None if it could."""

    plan: LoadPlan
    outcome: Outcome
    summary: dict[str, Any] | None
    certificate: Certificate | None
    ceiling: Ceiling
    warnings: tuple[str, ...]
    #: The network to the server's host, where it was measured.
    link: LinkAround | None = None

    @property
    def problem(self) -> str | None:
        """Why it could not go on."""
        return self.outcome.applied.problem

    @property
    def verdict(self) -> Verdict:
        """As a run's: disturbed at best, for nobody watched the machines."""
        stimulus = self.stimulus
        return Verdict.judged([UNWATCHED]) if stimulus.valid else stimulus

    @property
    def stimulus(self) -> Verdict:
        """Whether the server got the traffic that was asked for: valid, invalid, failed or cancelled."""
        applied = self.outcome.applied
        if applied.cancelled:
            return Verdict.cancelled("load")
        if applied.problem:
            return Verdict.failed("load", applied.problem.splitlines()[0])
        reasons = [ended_early(applied.stopped_early)] if applied.stopped_early else []
        reasons += self.certificate.reasons if self.certificate else [Reason(text="nothing was measured")]
        return Verdict.judged(reasons)

    def document(self) -> dict[str, Any]:
        """Everything about the load, as plain data."""
        certificate = self.certificate.model_dump() if self.certificate else None
        if certificate:
            certificate["warnings"] += self.warnings
        return {
            **self.verdict.as_stored(),
            "endpoint": self.plan.endpoint.model_dump(),
            "samples_path": str(self.outcome.samples_path),
            "window": {
                "start_ns": self.outcome.measure_start_ns,
                "end_ns": self.outcome.measure_end_ns,
                "epoch_offset_ns": self.outcome.epoch_offset_ns,
            },
            "summary": self.summary,
            "certificate": certificate,
            "ceiling": self.ceiling.model_dump(),
            "mlperf": self.outcome.mlperf.model_dump(mode="json") if self.outcome.mlperf else None,
            **({"link": self.link.model_dump(mode="json")} if self.link else {}),
        }


def plan(options: Asked, folder: Path) -> LoadPlan:
    """Check everything, ask the server for its model's signature, draw the schedule; nothing is sent.

    InputError, or pydantic's ValidationError for the options.
    """
    batches = parse_batches(options.batch_size)
    fields = {
        **options.options,
        "arrivals": parse_arrivals(options.arrivals),
        "batch_size": batches[0].batch_size,
    }
    spec = LoadSpec.model_validate(fields)
    _check_arrivals(spec, openai=options.protocol == "openai")
    if options.protocol == "openai":
        return _plan_tokens(options, spec, folder)
    endpoint = parse_url(options.url, options.model, options.model_version, options.protocol)
    inputs = inputs_for(endpoint, options.input_file, _shapes(options.shapes), folder, spec.seed)
    read_inputs(str(inputs.path))
    sizes = {spec.arrivals.samples_per_request(share.batch_size) for share in batches}
    if not inputs.batched and sizes != {1}:
        raise InputError("--batch-size: the model has no batch axis, only 1 sample per request is possible")
    return prepare(
        spec,
        folder=folder / "load",
        endpoint=endpoint,
        inputs_path=str(inputs.path),
        base_dir=Path.cwd(),
        expected=inputs.expected,
        batches=batches if len(batches) > 1 else None,
        batched=inputs.batched,
        binary=options.binary,
        max_backlog=options.max_backlog,
        target_latency_ms=options.target_latency_ms,
    )


def _plan_tokens(options: Asked, spec: LoadSpec, folder: Path) -> LoadPlan:
    """The plan of a load of streamed tokens: each request carries a prompt."""
    if spec.samples_per_request != 1:
        raise InputError(
            "--batch-size, --arrivals: a request of --protocol openai is one prompt: no batches, no multi_stream"
        )
    if spec.engine != "inferbench":
        raise InputError("--engine: MLPerf's LoadGen does not send with --protocol openai")
    tokens = options.tokens or TokenOptions()
    if tokens.conversing:
        for field, what in conversing_problems(spec.model_copy(update={"endpoint": tokens.api})):
            raise InputError(f"--turns, --conversations: {field}: {what}")
    if tokens.tokenizer is not None:
        try:
            token_counter(tokens.tokenizer)
        except InputError as error:
            raise InputError(f"--tokenizer: {error.message}") from error
    endpoint, stream = parse_target(options.url, options.model, tokens)
    inputs_path = folder / "requests.npz"
    vocabulary = str(tokens.tokenizer) if tokens.tokenizer else None
    write_requests(tokens, endpoint, spec, inputs_path, Path.cwd(), vocabulary)
    return prepare(
        spec,
        folder=folder / "load",
        endpoint=endpoint,
        inputs_path=str(inputs_path),
        base_dir=Path.cwd(),
        max_backlog=options.max_backlog,
        stream=stream,
        ttft_ms=tokens.each.ttft_ms,
        conversing=tokens.conversing,
        in_order=tokens.trace is not None,
        cacheable_tokens=tokens.cacheable_tokens,
        vocabulary=vocabulary,
    )


def _check_arrivals(spec: LoadSpec, *, openai: bool) -> None:
    if isinstance(spec.arrivals, MaxRate) and openai:
        raise InputError(
            "--arrivals: max_rate judges whole answers; the highest rate at which enough streams are good is found by "
            "`inferbench recommend --capacity`, of a submission; here give a rate (poisson:2)"
        )
    if isinstance(spec.arrivals, MaxRate):
        raise InputError(
            "--arrivals: max_rate needs an objective and judges several loads; write a submission with slo.p99_ms, or "
            "give a rate (poisson:100)"
        )
    spec.arrivals.bind(Path.cwd())  # what is wrong with a trace is told before the server is asked


def parse_batches(text: str) -> tuple[BatchShare, ...]:
    """``4``, or a mix: ``1:3,8:1``."""
    shares = []
    for part in text.split(","):
        size, _, weight = part.partition(":")
        try:
            shares.append(BatchShare(batch_size=int(size), weight=float(weight or 1)))
        except ValueError as error:
            raise InputError(
                f"--batch-size: {part!r} is no size; write 4, or 1:3,8:1 for a mix by weights"
            ) from error
    return tuple(shares)


def _shapes(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for text in texts:
        name, equals, sizes = text.partition("=")
        try:
            shapes[name] = tuple(int(size) for size in sizes.split(",") if size)
        except ValueError:
            equals = ""
        if not equals or any(size < 1 for size in shapes[name]):
            raise InputError(f"--shape: {text!r} is no shape; for instance image=3,224,224")
    return shapes


def check_target(load_plan: LoadPlan) -> None:
    """One request, checked; InputError if the server refuses it or its answer is none."""
    from inferbench_tasks.loadgen.first_request import ask_once

    try:
        ask_once(load_plan)
    except (Refused, OSError) as error:
        raise InputError(f"The server does not answer a first request: {error}") from error


def apply(
    load_plan: LoadPlan,
    folder: Path,
    cache: Path,
    allow_unsafe: bool,
    show: Show,
    cancelled: Callable[[], bool],
    each: Each | None = None,
    link_after: Callable[[], LinkAround] | None = None,
) -> Result:
    """Apply a plan and sum up what was recorded; ``each``: what streamed answers must keep to be good.

    ``link_after``: measures the network once more, as soon as the load has ended.
    """
    show("measuring this client's ceiling", 0.0, 1.0, None)
    if load_plan.stream is None:
        limit = check_ceiling(load_plan, 64, cache, allow_unsafe=allow_unsafe)
    else:
        limit = check_chunk_ceiling(load_plan, cache, allow_unsafe=allow_unsafe)

    def progress(done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        phase = "warm-up" if done_s * 1e9 < load_plan.measure_start_ns else "measuring"
        show(phase, done_s, total_s, snapshot)

    outcome = apply_load(load_plan, folder / "samples.parquet", progress=progress, cancelled=cancelled)
    link = link_after() if link_after else None
    summary = certificate = None
    if outcome.requests:
        summary = summarise(
            outcome.table(for_figures=True),
            measure_start_ns=outcome.measure_start_ns,
            measure_end_ns=outcome.measure_end_ns,
        )
        if outcome.applied.usages:
            certificate = outcome.certificate(load_plan)
            if load_plan.stream is not None and not allow_unsafe:
                certificate = certificate.and_check(chunk_ceiling_check(outcome, limit))
            withhold(summary, certificate.withheld)
    said: list[str] = []
    if summary is not None and load_plan.stream is not None:
        tokens = token_figures(load_plan, outcome, each or Each(), certificate)
        summary |= {"tokens": tokens, "goodput_rps": tokens["goodput_rps"] if tokens["each"] else None}
        said = token_words(load_plan, tokens)
    words = [f"first {kind}: {text}" for kind, text in outcome.applied.explanations.items()]
    if near := near_ceiling(summary, limit):
        words.append(near)
    if link:
        words += link_warnings(link)
    return Result(load_plan, outcome, summary, certificate, limit, (*outcome.warnings, *said, *words), link)


def near_ceiling(summary: dict[str, Any] | None, limit: Ceiling) -> str | None:
    """A word where a load came closer to the client's ceiling than is safe."""
    rate = summary["throughput_rps"] if summary else 0.0
    if rate <= 0.5 * limit.requests_per_s:
        return None
    return (
        f"{rate:,.0f} requests/s are {rate / limit.requests_per_s:.0%} of what this client can send at all "
        f"({limit.requests_per_s:,.0f}): the client may have been the bottleneck"
    )


def calibrate(
    protocol: str,
    request_bytes: int,
    answer_bytes: int,
    client: str,
    shards: int,
    cache: Path,
    *,
    fresh: bool,
) -> Ceiling:
    """The ceiling for requests that carry one tensor of so many bytes."""
    kinds = {"http": "http", "grpc": "grpc", "tfs": "grpc_tfs", "grpc_tfs": "grpc_tfs"}
    if protocol not in kinds:
        raise InputError(f"--protocol: unknown protocol {protocol!r}; known: http, grpc, tfs")
    if client not in CLIENT_NAMES:
        raise InputError(f"--client: unknown client {client!r}; known: {', '.join(CLIENT_NAMES)}")
    with tempfile.TemporaryDirectory(prefix="inferbench-calibrate-") as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, input=np.zeros((4, max(1, request_bytes // 4)), np.float32))
        spec = LoadSpec.model_validate(
            {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "client": client, "shards": shards}
        )
        endpoint = Endpoint(protocol=kinds[protocol], host="127.0.0.1", port=1, model_name="null")
        load_plan = prepare(
            spec, folder=Path(folder), endpoint=endpoint, inputs_path=str(inputs), base_dir=Path(folder)
        ).model_copy(update={"shards": shards})
        return ceiling(load_plan, answer_bytes, cache, fresh=fresh)
