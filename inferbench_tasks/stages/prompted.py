"""Parts of the stages of language models: prompts in place of samples, and streams of tokens in place of outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.handles import Endpoint, ModelArtifact, RequestSet
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.context import Longest, Slot
from inferbench_tasks.submission.token_lengths import OUTPUT_TOKENS

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.plan import LoadPlan
    from inferbench_tasks.loadgen.token_load import TokenOptions
    from inferbench_tasks.requests.fitting import Around, Count
    from inferbench_tasks.submission.schema import JobSpec, LoadSpec

#: Tokens of a first answer, which only shows that there is one.
_FIRST_TOKENS = 4


def prompted(job: JobSpec, base_dir: Path, model: ModelArtifact) -> RequestSet:
    """The requests of a job with prompts. They are drawn when the load begins: each run has a salt of its own.

    InputError for a file of them that is wrong, or holds what fits into no slot of the server, before one is started.
    """
    vocabulary = vocabulary_of(model)
    require_fitting(job, base_dir, vocabulary)
    text = job.requests.model_dump_json()
    return RequestSet(
        path="",
        reference_path="",
        samples=0,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        dataset="prompts",
        vocabulary_path=vocabulary,
    )


def require_fitting(job: JobSpec, base_dir: Path, vocabulary: str | None = None) -> None:
    """InputError for a file of requests that is wrong, or with its line for what fits into no slot of the server.

    Of a trace the requests that the load sends are looked at, see ``requests_made``.
    ``vocabulary``: see ``plan_of``; with it a chat template's tokens count, and those of conversations.
    """
    from inferbench_tasks.backends.base import BACKENDS
    from inferbench_tasks.loadgen.token_load import requests_made
    from inferbench_tasks.requests.conversations import read_conversations
    from inferbench_tasks.requests.fitting import require_conversations_fit, require_trace_fits

    options = options_of(job, base_dir)
    slot = Slot.of(job, BACKENDS.load(job.serve.backend, "serve.backend").slot_tokens)
    around, count = _counts(vocabulary, chat=options.api == "chat")
    if options.trace is not None:
        trace = options.trace.read()
        if slot is not None:
            sent = trace.first(requests_made(options, job.traffic, base_dir))
            require_trace_fits(sent, options.trace.path, slot, around(("user",)))
    elif options.conversations is not None:
        if slot is None or count is None:
            read_conversations(options.conversations, options.where)
        else:
            asked = job.requests.output_tokens
            each = OUTPUT_TOKENS if asked is None else asked.most or asked.least
            require_conversations_fit(options.conversations, options.where, slot, each, count, around)
    elif slot is not None:
        longest = Longest.of(job)
        template = around(("user", "assistant") * (longest.turns - 1) + ("user",))
        if (tokens := longest.tokens(template)) > slot.tokens:
            raise InputError(slot.refusal(longest.words(template), tokens), field=longest.fields()[0])


def _counts(vocabulary: str | None, *, chat: bool) -> tuple[Around, Count | None]:
    """Of the file's chat template and tokenizer; nothing and None where the tokenizer is not known."""
    if vocabulary is None:
        return lambda _: 0, None
    from inferbench_tasks.formats.gguf_file import read_gguf
    from inferbench_tasks.formats.gguf_template import template_tokens
    from inferbench_tasks.formats.gguf_tokenizer import Tokenizer

    fields = read_gguf(Path(vocabulary)).fields
    tokenizer = Tokenizer(fields)

    def around(roles: Sequence[str]) -> int:
        return (template_tokens(fields, tokenizer, roles) or 0) if chat else 0

    return around, tokenizer.count


def vocabulary_of(model: ModelArtifact) -> str | None:
    """The file that tells how the model's server counts, where that can be read here."""
    if model.format != "gguf":
        return None
    from inferbench_tasks.formats.gguf_file import read_gguf
    from inferbench_tasks.formats.gguf_tokenizer import not_counted

    return model.path if not_counted(read_gguf(Path(model.path)).fields) is None else None


def options_of(job: JobSpec, base_dir: Path | None = None) -> TokenOptions:
    """What the load's own command line would be told. ``base_dir``: where the files lie that the job names."""
    from inferbench_tasks.arrivals.trace_file import file_inside
    from inferbench_tasks.backends.base import BACKENDS
    from inferbench_tasks.loadgen.token_load import TokenOptions
    from inferbench_tasks.loadgen.token_summary import Each
    from inferbench_tasks.requests.prompts import TraceFile

    spec = job.requests
    given: dict[str, Any] = {
        name: getattr(spec, name).model_dump()
        for name in ("input_tokens", "output_tokens", "turns", "think_time_ms")
        if getattr(spec, name) is not None
    }
    slo = job.slo
    each = {**slo.each.model_dump(), "min_good_ratio": slo.min_good_ratio} if slo and slo.each else {}
    prefix = (spec.shared_prefix.groups, spec.shared_prefix.tokens) if spec.shared_prefix else None
    conversations = None
    if spec.kind == "conversations" and spec.path and base_dir:
        conversations = file_inside(base_dir, spec.path)
    trace = None
    if spec.kind == "trace" and spec.path and base_dir:
        names = spec.columns.model_dump(exclude_none=True) if spec.columns else {}
        trace = TraceFile(
            base_dir, spec.path, names, **({"block_tokens": b} if (b := spec.block_tokens) else {})
        )
    return TokenOptions(
        conversations=conversations,
        trace=trace,
        where="requests.path",
        api=job.traffic.endpoint or "chat",
        salt=spec.salt is not False,
        ignore_eos=BACKENDS.load(job.serve.backend, "serve.backend").ignores_eos,
        prefix=prefix,
        each=Each(**each),
        **given,
    )


def plan_of(
    job: JobSpec,
    load: LoadSpec,
    endpoint: Endpoint,
    folder: Path,
    base_dir: Path,
    vocabulary: str | None = None,
) -> LoadPlan:
    """The senders' orders; the prompts are drawn anew. InputError for what can't be done.

    ``vocabulary``: the file by whose tokenizer prompts are made and counts judged.
    """
    from inferbench_tasks.clients.openai_form import PATHS, StreamTarget
    from inferbench_tasks.loadgen.prepare import prepare
    from inferbench_tasks.loadgen.token_load import write_requests

    options = options_of(job, base_dir)
    inputs = folder / "prompts.npz"
    write_requests(options, endpoint, load, inputs, base_dir, vocabulary)
    return prepare(
        load,
        folder=folder,
        endpoint=endpoint,
        inputs_path=str(inputs),
        base_dir=base_dir,
        stream=StreamTarget(path=f"/v1/{PATHS[options.api]}"),
        ttft_ms=options.each.ttft_ms,
        conversing=options.conversing,
        in_order=options.trace is not None,
        cacheable_tokens=options.cacheable_tokens,
        vocabulary=vocabulary,
    )


def first_answer(
    job: JobSpec, endpoint: Endpoint, folder: Path, base_dir: Path, vocabulary: str | None
) -> None:
    """Ask for a few tokens and read the whole stream; Refused or OSError where that is no answer."""
    from inferbench_tasks.loadgen.first_request import ask_once
    from inferbench_tasks.submission.token_lengths import Fixed

    short = job.requests.model_copy(update={"output_tokens": Fixed(kind="fixed", value=_FIRST_TOKENS)})
    one = job.traffic.model_copy(update={"shards": 1})
    asked = job.model_copy(update={"requests": short})
    ask_once(plan_of(asked, one, endpoint, folder, base_dir, vocabulary))
