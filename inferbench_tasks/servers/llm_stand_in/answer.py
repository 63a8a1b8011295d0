"""The stand-in's answers: bytes of chunks, with the tokens that each carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from inferbench_tasks.servers.llm_stand_in.pace import Pace

#: In every chunk and every answer: whoever reads one knows what it is worth.
NO_MODEL = "llm_stand_in: no model, paced text"
_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}


#: Stands in the last chunk for the server's own times, which are known when it is written.
TIMINGS = b'"timings":null'


@dataclass(frozen=True)
class Piece:
    """Bytes to write, ``due_ms`` after the request was taken; ``tokens``: that they carry."""

    due_ms: float
    data: bytes
    tokens: int = 0


@dataclass(frozen=True)
class Asked:
    """What a request asks of the stand-in."""

    chat: bool
    model: str
    prompt_tokens: int
    output_tokens: int
    stream: bool
    usage: bool


def text_of(first: int, count: int) -> str:
    """Tokens number ``first`` and following: five bytes each."""
    return "".join(f" tok{number % 10}" for number in range(first, first + count))


def pieces_of(asked: Asked, pace: Pace) -> list[Piece]:
    """The whole stream, with what is wrong with it."""
    form = _Form(asked, pace)
    wrong = pace.fault
    counts = pace.chunks(asked.output_tokens + (3 if wrong == "too_many" else 0))
    if wrong == "role_only":
        counts = []
    pieces = [Piece(0.0, form.chunk({"role": "assistant"}))] if pace.role and asked.chat else []
    sent = 0
    for index, count in enumerate(counts):
        stalled_ms = pace.stall_ms if index >= max(1, len(counts) // 2) else 0.0
        due_ms = pace.ttft_ms + index * pace.gap_ms + stalled_ms
        data = form.tokens(sent, count)
        sent += count
        if index == len(counts) // 2:
            data = _spoiled(data, wrong, form)
        pieces.append(Piece(due_ms, data, count))
        if index == len(counts) // 2 and wrong in ("cut", "error_event"):
            return pieces
    end_ms = pieces[-1].due_ms if pieces else pace.ttft_ms
    finish = b"" if wrong == "unfinished" else form.finish()
    last = finish + form.usage(sent) + form.timings() + (form.event(b"[DONE]") if pace.done else b"")
    pieces.append(Piece(end_ms, last))
    if wrong == "buffered":
        return [Piece(end_ms, b"".join(piece.data for piece in pieces), sent)]
    if wrong == "burst":
        return [Piece(end_ms, piece.data, piece.tokens) for piece in pieces]
    return pieces


def whole_answer(asked: Asked) -> bytes:
    """The answer to a request that asks for no stream."""
    text = text_of(0, asked.output_tokens)
    message = {"message": {"role": "assistant", "content": text}} if asked.chat else {"text": text}
    choice = {"index": 0, "finish_reason": "length", **message}
    return orjson.dumps(
        {**_envelope(asked), "choices": [choice], "usage": _usage(asked, asked.output_tokens)}
    )


def _spoiled(data: bytes, fault: str, form: _Form) -> bytes:
    if fault == "bad_json":
        return form.event(b'{"choices": [{"delta": {"content": "tok"}')
    if fault == "bad_utf8":
        return data.replace(b"tok", b"to\xff", 1)
    if fault == "error_event":
        return form.event(orjson.dumps({"error": {"message": "the stand-in was told to fail", "code": 500}}))
    return data


class _Form:
    """The same chunks in another form."""

    def __init__(self, asked: Asked, pace: Pace) -> None:
        self._asked = asked
        self._pace = pace
        self._end = _ENDS[pace.line_end]

    def event(self, data: bytes) -> bytes:
        comment = b": keep-alive" + self._end + self._end if self._pace.comments else b""
        return comment + b"data: " + data + self._end + self._end

    def chunk(self, delta: dict[str, Any], finish: str | None = None, tokens: int | None = None) -> bytes:
        choice = {"index": 0, "finish_reason": finish, "delta": delta}
        return self._choice(choice, tokens)

    def tokens(self, first: int, count: int) -> bytes:
        text = text_of(first, count)
        if self._asked.chat:
            return self.chunk({"content": text}, tokens=first + count)
        return self._choice({"index": 0, "finish_reason": None, "text": text}, first + count)

    def finish(self) -> bytes:
        if self._asked.chat:
            return self.chunk({}, "length")
        return self._choice({"index": 0, "finish_reason": "length", "text": ""}, None)

    def usage(self, tokens: int) -> bytes:
        fault = self._pace.fault
        if not self._asked.usage or fault == "no_usage":
            return b""
        told = tokens // 2 if fault == "low_usage" else tokens
        usage = _usage(self._asked, told, self._pace.cached_tokens)
        return self.event(orjson.dumps({**_envelope(self._asked), "choices": [], "usage": usage}))

    def timings(self) -> bytes:
        if not self._pace.timings:
            return b""
        envelope = orjson.dumps({**_envelope(self._asked), "choices": []})
        return self.event(envelope[:-1] + b"," + TIMINGS + b"}")

    def _choice(self, choice: dict[str, Any], tokens: int | None) -> bytes:
        document = {**_envelope(self._asked), "choices": [choice]}
        if self._pace.usage_each and tokens is not None:
            document["usage"] = _usage(self._asked, tokens, self._pace.cached_tokens)
        return self.event(orjson.dumps(document))


def _envelope(asked: Asked) -> dict[str, Any]:
    return {
        "id": "stand-in",
        "object": "chat.completion.chunk" if asked.chat else "text_completion",
        "created": 0,
        "model": asked.model,
        "system_fingerprint": NO_MODEL,
    }


def _usage(asked: Asked, tokens: int, cached: int | None = None) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": asked.prompt_tokens + tokens,
    }
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": min(cached, asked.prompt_tokens)}
    return usage
