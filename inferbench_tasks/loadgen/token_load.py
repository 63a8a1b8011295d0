"""A load of streamed tokens without a submission: its target, its requests, its ceiling and its figures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.clients.openai_form import PATHS, Api, StreamTarget
from inferbench_tasks.clients.openai_models import list_models
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.token_counter import token_counter
from inferbench_tasks.loadgen.certificate import Certificate
from inferbench_tasks.loadgen.connection_waits import with_waits
from inferbench_tasks.loadgen.mlperf_endpoints import endpoints_point
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.server_side import SERVER_STREAMS, ServerSide, settle_parts, summarise_server
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_counts import TEMPLATE_TOKENS
from inferbench_tasks.loadgen.token_groups import grouped
from inferbench_tasks.loadgen.token_records import CHUNKS, STREAMS_JUDGED, read_table
from inferbench_tasks.loadgen.token_share import withhold_all_times, withhold_clients_times
from inferbench_tasks.loadgen.token_summary import Each, by_reason, summarise_tokens
from inferbench_tasks.loadgen.token_window import TokenWindow
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.requests.prompts import PromptSet, TraceFile, write_prompts
from inferbench_tasks.submission.conversing import beginnings, too_many_turns
from inferbench_tasks.submission.schema import LoadSpec
from inferbench_tasks.submission.token_lengths import INPUT_TOKENS, OUTPUT_TOKENS, lengths_of

#: The share of streams that the window's ends may cut without a word.
_MANY_CUT = 0.1
#: The most different prompts of a load.
_MOST_PROMPTS = 100_000
_HTTP = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[\x21-\x7e]{1,2000}")


@dataclass(frozen=True)
class TokenOptions:
    """The command line's part that is of streams of tokens. ``input_tokens`` and ``output_tokens``: laws of lengths."""

    api: Api = "chat"
    api_key_env: str | None = None
    input_tokens: dict[str, Any] = field(default_factory=lambda: {"kind": "fixed", "value": INPUT_TOKENS})
    output_tokens: dict[str, Any] = field(default_factory=lambda: {"kind": "fixed", "value": OUTPUT_TOKENS})
    prompts: Path | None = None
    salt: bool = True
    ignore_eos: bool = False
    extra_body: str | None = None
    each: Each = field(default_factory=Each)
    #: Different prefixes and the tokens of each; a prompt begins with one of them.
    prefix: tuple[int, int] | None = None
    #: Laws of turns of a conversation and of ms from an answer to the next turn.
    turns: dict[str, Any] | None = None
    think_time_ms: dict[str, Any] | None = None
    #: The user's conversations, and how that was asked for.
    conversations: Path | None = None
    where: str = "--conversations"
    #: Tokens as a trace recorded them.
    trace: TraceFile | None = None
    #: The file of the server's tokenizer, see ``token_counter``.
    tokenizer: Path | None = None

    @property
    def cacheable_tokens(self) -> int | None:
        """The most tokens of a first turn's prompt that others of the same load may share; None where nobody can tell.

        What a chat template puts before all, and the shared prefix, whose length is aimed at.
        """
        if (
            not self.salt
            or self.prompts is not None
            or self.conversations is not None
            or self.trace is not None
        ):
            return None
        return TEMPLATE_TOKENS + 2 * (self.prefix[1] if self.prefix else 0)

    @property
    def conversing(self) -> bool:
        """Whether requests are turns of conversations."""
        return self.turns is not None or self.conversations is not None


def parse_target(url: str, model: str | None, options: TokenOptions) -> tuple[Endpoint, StreamTarget]:
    """``http[s]://host[:port][/base]``, ``/v1`` without a base. A server of a single model is asked for its name."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in _HTTP:
        raise InputError(f"--url: {parts.scheme!r} is not spoken with --protocol openai; http or https")
    if parts.username or parts.password or parts.query:
        raise InputError("--url: no user, password or query may stand in it; a key comes by --api-key-env")
    try:
        host, port = parts.hostname, parts.port or _HTTP[parts.scheme]
    except ValueError as error:
        raise InputError(f"--url: {error}") from error
    if not host:
        raise InputError(f"--url: no host in {url!r}; for instance http://127.0.0.1:8000/v1")
    base = parts.path.rstrip("/") or "/v1"
    if not _PLAIN.fullmatch(host + base):
        raise InputError(f"--url: {url!r} has characters that no address has")
    for path in PATHS.values():
        base = base.removesuffix(f"/{path}")
    target = StreamTarget(
        path=f"{base}/{PATHS[options.api]}", api_key_env=options.api_key_env, tls=parts.scheme == "https"
    )
    endpoint = Endpoint(protocol="openai", host=host, port=port, model_name=model or "")
    if model:
        target.key()
        return endpoint, target
    models = list_models(endpoint, target, base)
    if len(models) != 1:
        text = f"the server has: {', '.join(models[:20])}" if models else "the server lists none"
        raise InputError(f"Which model? Name it with --model; {text}")
    return endpoint.model_copy(update={"model_name": models[0]}), target


def write_requests(
    options: TokenOptions,
    endpoint: Endpoint,
    spec: LoadSpec,
    path: Path,
    base_dir: Path,
    vocabulary: str | None = None,
) -> None:
    """The inputs of the load: as many different prompts as it will send, where that is known.

    ``base_dir``: where the files lie that its arrivals name. ``vocabulary``: see ``LoadPlan``.
    """
    wanted = PromptSet(
        model=endpoint.model_name,
        api=options.api,
        input_tokens=lengths_of(options.input_tokens, "--input-tokens"),
        output_tokens=lengths_of(options.output_tokens, "--output-tokens"),
        salt=options.salt,
        more={**({"ignore_eos": True} if options.ignore_eos else {}), **_extra(options.extra_body)},
        file=options.prompts,
        prefix=options.prefix,
        turns=lengths_of(options.turns, "--turns") if options.turns else None,
        think_time_ms=lengths_of(options.think_time_ms, "--think-time-ms") if options.think_time_ms else None,
        conversations=options.conversations,
        where=options.where,
        trace=options.trace,
        count=token_counter(vocabulary).count if vocabulary else None,
    )
    count = _wanted(options, spec, base_dir)
    if wanted.turns is not None and (problem := too_many_turns(count, wanted.turns)):
        raise InputError(problem)
    write_prompts(wanted, min(count, _MOST_PROMPTS), path, spec.seed)


def requests_made(options: TokenOptions, spec: LoadSpec, base_dir: Path) -> int:
    """How many requests, or conversations, ``write_requests`` makes at most: of a file no line behind them is sent."""
    return min(_wanted(options, spec, base_dir), _MOST_PROMPTS)


def _wanted(options: TokenOptions, spec: LoadSpec, base_dir: Path) -> int:
    if options.trace is not None and isinstance(spec.arrivals, ClosedProcess):
        return _MOST_PROMPTS
    return beginnings(spec, spec.arrivals.bind(base_dir))


#: Fields that ask for more than one answer to a request.
_SEVERAL_ANSWERS = ("n", "best_of")


def _extra(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"--extra-body: {text[:80]!r} is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InputError("--extra-body: no JSON object")
    for name in _SEVERAL_ANSWERS:
        if fields.get(name, 1) not in (1, None):
            raise InputError(
                f"--extra-body: {name} must be 1: the server counts the tokens of several answers together"
            )
    return fields


def token_figures(
    plan: LoadPlan, outcome: Outcome, each: Each, certificate: Certificate | None = None
) -> dict[str, Any]:
    """The figures of a load's streams, without those that the client or, by its certificate, the load's length made."""
    assert outcome.streams is not None
    window = Window.of(outcome.table(for_figures=True), outcome.measure_start_ns, outcome.measure_end_ns)
    usages = outcome.applied.usages
    window = with_waits(window, plan.asked_connections if plan.segments[-1].paced else None, usages)
    streams, _ = read_table(outcome.streams.streams_path, STREAMS_JUDGED)
    chunks, _ = read_table(outcome.streams.chunks_path, CHUNKS)
    tokens = TokenWindow.of(window, streams, chunks)
    told, _ = read_table(outcome.streams.streams_path, SERVER_STREAMS)
    side = ServerSide.of(tokens, told)
    summary = {**summarise_tokens(tokens, each), **summarise_server(side)}
    if usages:
        paced = plan.segments[-1].kind == "closed" or plan.segments[-1].paced
        withhold_clients_times(summary, tokens, usages, Thresholds(), paced=paced, server=side)
    if certificate is not None and (reason := outcome.depends_on_length(certificate, plan)) is not None:
        withhold_all_times(summary, reason)
    settle_parts(summary)
    inputs = read_inputs(plan.inputs_path)
    different, sent = len(inputs["request"]), len(window.request_id)
    if plan.turn_step:
        different, sent = int(inputs["conversation"][-1]) + 1, int((window.request_id < plan.turn_step).sum())
    measured = int(window.measured.sum())
    return {
        "server": list(outcome.streams.said),
        "prompts": {"different": different, "sent_again": max(0, sent - different)},
        "requests": measured,
        **summary,
        **grouped(tokens, plan.turn_step, summary["ttft_ms"]),
        "mlperf_endpoints": endpoints_point(plan, summary),
        "streams_path": str(outcome.streams.streams_path),
        "chunks_path": str(outcome.streams.chunks_path),
    }


def words(plan: LoadPlan, tokens: dict[str, Any]) -> list[str]:
    """What a reader of the figures should know first."""
    said = [f"{', '.join(names)}: {reason}" for reason, names in by_reason(tokens).items()]
    if any("no model" in name for name in tokens["server"]):
        said.append(f"the server says that it is no model: {', '.join(tokens['server'])}")
    if by_tokenizer := tokens["output_tokens_by"]["tokenizer"]:
        said.append(
            f"of {by_tokenizer} answers the server told no `usage`: their tokens are those of their text by the "
            "tokenizer, which may cut it otherwise than the model made it"
        )
    by = tokens["first_chunk_tokens_by"]
    if by["text"]:
        said.append(
            f"in {by['text']} streams the tokens of the first chunk are known by its share of the text only: the time "
            "per token is that much less sure"
        )
    cut, there = tokens["cut_by_window"], tokens["streams_in_window"]
    if cut > _MANY_CUT * there:
        said.append(
            f"the window cuts {cut} of {there} streams, of which tokens/s has what arrived within: measure longer "
            "for a surer figure"
        )
    if again := tokens["prompts"]["sent_again"]:
        what = "conversations" if plan.turn_step else "requests"
        said.append(
            f"{again} {what} began with a prompt that had been sent before: a prefix cache may have known it"
        )
    if plan.stream and plan.stream.api_key_env and not plan.stream.tls and not _local(plan.endpoint.host):
        said.append("the API key went over the network unencrypted (http)")
    if (ratio := tokens["stamp"]["shared_read_ratio"]) is not None and ratio > 0.01:
        said.append(
            f"{ratio:.1%} of the chunks came together with another one and carry its moment: gaps are less sure"
        )
    return said


def _local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
