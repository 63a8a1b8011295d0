"""OpenAI's API of language models over HTTP: how a request is written and what a stream says.

A TOKEN CHUNK is an event with text in it: ``content``, ``text``, reasoning or a tool call's arguments. A role, a null,
a finish reason or the usage carries no token. What a stream must have to be an answer stands in ``BAD``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.clients.answers import BadAnswer, Outputs
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.protocols.sse import events

#: The statuses of answers that came with HTTP 200 and are none, and what each means.
BAD = {
    "stream_missing": "the answer is no stream of events",
    "stream_encoding": "an event is not UTF-8",
    "stream_json": "an event is not JSON, or not of the form of a chunk",
    "stream_error": "an event says that the server failed",
    "stream_choices": "the stream has several answers to one request, whose tokens `usage` counts together",
    "stream_empty": "the stream has no token: at most a role",
    "stream_unfinished": "the stream ends without a finish reason",
    "stream_too_many": "the stream has more tokens than were asked for",
    "stream_usage": "the stream's usage counts fewer tokens than the stream has chunks with tokens",
    "stream_too_large": "the stream has more bytes than so many tokens can need",
}
#: What an event carries, as ``chunks.parquet`` numbers it. The first carries no token.
KINDS = ("none", "content", "reasoning", "tool_call")
NONE, CONTENT, REASONING, TOOL_CALL = range(4)
#: A header's value of one line; anything else could write headers of its own.
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
#: A server's word on a time is one of less than a month.
_MOST_MS = 2.6e9
_REASONING = ("reasoning_content", "reasoning")
#: Of an event's ``error``: servers may write the field with each chunk.
_NO_ERROR = (None, False, "")
_GZIP, _COMPRESSED = b"\x1f\x8b", "it is compressed (gzip), which was not asked for"
#: Finish reasons of answers that the server gave up (vLLM's, SGLang's, TensorRT-LLM's): their tokens are no answer.
_GIVEN_UP = ("abort", "error", "cancelled", "timeout")
#: In place of a key; characters of one that may be a key's beginning.
_HIDDEN, _TELLING = "***", 4

Api = Literal["chat", "completions"]
PATHS: dict[Api, str] = {"chat": "chat/completions", "completions": "completions"}


class StreamTarget(BaseModel):
    """Where streams are asked for beside host and port. ``api_key_env``: the variable that holds the key, no key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    api_key_env: str | None = None
    tls: bool = False

    def key(self) -> str | None:
        """The API key; InputError, without it, where the environment has none that fits a header."""
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "")
        if not _KEY.fullmatch(key):
            what = "is not set" if not key else "has characters that no API key has"
            raise InputError(f"--api-key-env: the variable {self.api_key_env} {what}")
        return key


def without_key(text: str, key: str | None) -> str:
    """A server's words as they may be shown: it may repeat the key that it was sent, as JSON and Python write it in
    quotes (backslashes, ``\\u002b`` for +), and the words may have been cut off within it."""
    plain = key.replace("\\", "") if key else ""
    if not plain or not re.search(_quoted(plain[:_TELLING]), text):
        return text
    text = re.sub(_quoted(plain), _HIDDEN, text)
    for length in range(min(len(plain) - 1, len(text)), _TELLING - 1, -1):
        if begun := re.search(_quoted(plain[:length]) + r"\Z", text):
            return text[: begun.start()] + _HIDDEN
    return text


def _quoted(key: str) -> str:
    """The pattern of a key without its own backslashes, each character of which may be written by its number."""
    each = (f"(?:{re.escape(char)}|u00(?i:{ord(char):02x}))" for char in key)
    return r"\\*" + r"\\*".join(each) + r"\\*"


def encode_request(endpoint: Endpoint, target: StreamTarget, inputs: Outputs) -> bytes:
    """A whole HTTP/1.1 request; ``inputs["request"]`` has one JSON document."""
    (body,) = inputs["request"].tolist()
    return request_bytes(endpoint, target, bytes(body))


def request_bytes(endpoint: Endpoint, target: StreamTarget, body: bytes) -> bytes:
    """A whole HTTP/1.1 request with that JSON document."""
    port = "" if endpoint.port == (443 if target.tls else 80) else f":{endpoint.port}"
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {host}{port}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        f"Content-Length: {len(body)}",
    ]
    if key := target.key():
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True)
class ServerTimes:
    """What a server says of a request itself: ``timings`` of its last chunk, as llama.cpp has it; None: not told.

    ``prompt_us``: from a slot's begin with the prompt to the first token; ``prompt_tokens``: that it worked out for it,
    without ``cached_tokens``. ``predicted_us``: from the first token to the last; ``predicted_tokens``: all, and
    ``later_tokens``: those after the first. ``queue_us``: from the request's arrival to the slot's begin (the
    stand-in's; llama.cpp does not tell it).
    """

    queue_us: int | None = None
    prompt_us: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    predicted_us: int | None = None
    predicted_tokens: int | None = None
    later_tokens: int | None = None

    @classmethod
    def of(cls, timings: dict[str, Any]) -> ServerTimes:
        """Of a chunk's ``timings``; what is no time and no count is not told."""
        made = _count(timings.get("predicted_n"))
        first = _count(timings.get("first_n", 1))
        return cls(
            queue_us=_microseconds(timings.get("queue_ms")),
            prompt_us=_microseconds(timings.get("prompt_ms")),
            prompt_tokens=_count(timings.get("prompt_n")),
            cached_tokens=_count(timings.get("cache_n")),
            predicted_us=_microseconds(timings.get("predicted_ms")),
            predicted_tokens=made,
            later_tokens=made - first if made is not None and first is not None and made >= first else None,
        )


@dataclass
class StreamText:
    """What a stream says, whatever it is worth.

    ``kinds``, ``text_bytes`` and ``ends``: of each event (``KINDS``; bytes of its text; bytes of the stream with which
    it was complete). Token counts are the server's own (``usage``), None where it tells none. ``first_tokens``: tokens
    that usage counted with the first token chunk, where the server tells that with each chunk. ``problem``: a status
    of ``BAD`` and words. ``said``: the model and the system fingerprint that the server names.
    """

    kinds: list[int] = field(default_factory=list)
    text_bytes: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    first_tokens: int | None = None
    finish_reason: str | None = None
    said: tuple[str, str] = ("", "")
    problem: tuple[str, str] | None = None
    #: The server's own word on its times; None where it has none.
    times: ServerTimes | None = None
    #: How many token chunks there are.
    chunks: int = 0
    #: The answer's text, without what was reasoned, where somebody wants to go on from it.
    answer: list[str] | None = None


def read_stream(body: bytes, asked_tokens: int | None = None, *, with_answer: bool = False) -> StreamText:
    """Read a whole stream and judge it; never raises, whatever the bytes are."""
    stream = StreamText(answer=[] if with_answer else None)
    problem: tuple[str, str] | None = None
    for event in events(body):
        if event.data.strip() == b"[DONE]":
            break
        kind = size = 0
        try:
            kind, size = _read_chunk(stream, event.name, event.data)
        except _Bad as bad:
            problem = problem or (bad.status, bad.words)
        stream.chunks += kind != NONE
        stream.kinds.append(kind)
        stream.text_bytes.append(size)
        stream.ends.append(event.end)
    stream.problem = problem or _judge(stream, body, asked_tokens)
    return stream


def decode_answer(wire: bytes) -> Outputs:
    """Judge a whole HTTP answer with a length; BadAnswer where its stream is none."""
    stream = read_stream(wire.partition(b"\r\n\r\n")[2])
    if stream.problem:
        raise BadAnswer(stream.problem[1])
    return {}


class _Bad(Exception):
    def __init__(self, status: str, words: str = "") -> None:
        self.status = status
        self.words = f"{BAD[status]}: {words}" if words else BAD[status]


def _judge(stream: StreamText, body: bytes, asked_tokens: int | None) -> tuple[str, str] | None:
    chunks, tokens = stream.chunks, stream.output_tokens
    try:
        if not stream.kinds:
            compressed = body.startswith(_GZIP)
            raise _Bad("stream_missing", _COMPRESSED if compressed else repr(body[:80])[2:-1])
        if stream.finish_reason is None:
            raise _Bad("stream_unfinished", f"after {chunks} chunks with tokens")
        if _given_up(stream.finish_reason):
            raise _Bad("stream_error", f"finish reason {stream.finish_reason!r}")
        if not chunks:
            raise _Bad("stream_empty", f"finish reason {stream.finish_reason[:40]!r}")
        if asked_tokens is not None and max(chunks, tokens or 0) > asked_tokens:
            raise _Bad(
                "stream_too_many", f"{max(chunks, tokens or 0)}, at most {asked_tokens} were asked for"
            )
        if tokens is not None and tokens < chunks:
            raise _Bad("stream_usage", f"{tokens} tokens in {chunks} chunks")
    except _Bad as bad:
        return bad.status, bad.words
    return None


def _given_up(reason: str | None) -> bool:
    return reason is not None and reason.lower() in _GIVEN_UP


def _read_chunk(stream: StreamText, name: bytes, data: bytes) -> tuple[int, int]:
    """The kind of an event and the bytes of its text."""
    try:
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            data.decode()
        except UnicodeDecodeError as wrong:
            raise _Bad("stream_encoding", str(wrong)) from wrong
        raise _Bad("stream_json", str(error)) from error
    if not isinstance(chunk, dict):
        raise _Bad("stream_json", f"an event is {type(chunk).__name__}")
    if name == b"error" or chunk.get("error") not in _NO_ERROR:
        raise _Bad("stream_error", str(chunk.get("error") or chunk)[:300])
    if not stream.said[0]:
        stream.said = (_text(chunk.get("model")), _text(chunk.get("system_fingerprint")))
    kind, text = _tokens_of(stream, chunk)
    if stream.answer is not None and kind == CONTENT:
        stream.answer.append(text)
    if kind != NONE:  # tokens that come after a count are not in it
        stream.output_tokens = None
    _read_usage(stream, chunk.get("usage"), kind)
    if isinstance(timings := chunk.get("timings"), dict):
        stream.times = ServerTimes.of(timings)
    elif kind != NONE:  # tokens that come after them are in no times of the whole stream
        stream.times = None
    return kind, len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _tokens_of(stream: StreamText, chunk: dict[str, Any]) -> tuple[int, str]:
    choices = chunk.get("choices")
    if choices is None or choices == []:
        return NONE, ""  # the usage's own chunk has no choice
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise _Bad("stream_json", "`choices` is no list of choices")
    choice = choices[0]
    if len(choices) > 1 or choice.get("index", 0) != 0:
        raise _Bad("stream_choices", f"choice {choice.get('index')!r} of {len(choices)} in an event"[:80])
    if reason := choice.get("finish_reason"):  # some servers write "" with each chunk until the last
        if not isinstance(reason, str):
            raise _Bad("stream_json", "a finish reason is no text")
        if not _given_up(stream.finish_reason):
            stream.finish_reason = reason
    if text := _text(choice.get("text")):
        return CONTENT, text
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return NONE, ""
    if text := _text(delta.get("content")):
        return CONTENT, text
    for name in _REASONING:
        if text := _text(delta.get(name)):
            return REASONING, text
    calls = delta.get("tool_calls")
    parts = (
        [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    )
    text = "".join(_text(part.get("arguments")) for part in parts if isinstance(part, dict))
    return (TOOL_CALL, text) if text else (NONE, "")


def _read_usage(stream: StreamText, usage: Any, kind: int) -> None:
    """The last usage counts; a server may tell it with every chunk, but one that tokens follow is not of the whole."""
    if not isinstance(usage, dict):
        return
    output = _count(usage.get("completion_tokens"))
    if output is not None:
        stream.output_tokens = output
        if kind != NONE and stream.chunks == 0:  # of the chunks before this one
            stream.first_tokens = output
    if (prompt := _count(usage.get("prompt_tokens"))) is not None:
        stream.prompt_tokens = prompt
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and (cached := _count(details.get("cached_tokens"))) is not None:
        stream.cached_tokens = cached


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _microseconds(value: Any) -> int | None:
    """Of ms; None for what is no time."""
    is_time = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MOST_MS
    return round(value * 1000) if is_time else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
