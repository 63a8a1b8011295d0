"""How the stand-in answers: when its tokens come, in which chunks, and what is wrong with the stream."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferbench_tasks.problem import field_problems

#: What a request's ``model`` begins with; options may follow: ``stand-in:gap_ms=5,fault=bad_json``.
MODEL = "stand-in"
Fault = Literal[
    "none", "unfinished", "cut", "error_event", "bad_utf8", "bad_json", "role_only", "too_many", "buffered", "burst",
    "no_usage", "low_usage", "plain", "endless", "http_429", "http_503", "silent",
]  # fmt: skip


class Pace(BaseModel):
    """``ttft_ms``: from the moment a slot takes the request to its first token chunk; ``gap_ms``: between chunks.

    ``first_tokens``: tokens of the first chunk, ``tokens_per_chunk`` unless given. ``role``: a chunk with the role
    alone, at once. ``usage_each``: the usage with every chunk, not only in one of its own at the end. ``line_end``,
    ``comments`` (between the events), ``done`` (a last ``[DONE]``), ``chunked`` (else the body ends with the
    connection) and ``split`` (write so many bytes at a time) are forms of the same stream, which a client has to
    read alike. ``keep: false``: the connection is closed after the answer, without a word before. ``timings``: the
    last chunk tells the server's own times, as llama.cpp's does, with the queue's. ``stall_ms``: so much
    more before the chunk in the middle of a stream. Faults: ``buffered`` keeps the
    chunks until the last is due, ``burst`` writes them one by one then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ttft_ms: Annotated[float, Field(ge=0)] = 50.0
    gap_ms: Annotated[float, Field(ge=0)] = 10.0
    tokens_per_chunk: Annotated[int, Field(ge=1, le=4096)] = 1
    first_tokens: Annotated[int, Field(ge=1, le=4096)] | None = None
    role: bool = True
    usage_each: bool = False
    cached_tokens: Annotated[int, Field(ge=0)] | None = None
    line_end: Literal["lf", "crlf", "cr"] = "lf"
    comments: bool = False
    done: bool = True
    chunked: bool = True
    keep: bool = True
    split: Annotated[int, Field(ge=0)] = 0
    timings: bool = True
    stall_ms: Annotated[float, Field(ge=0)] = 0.0
    fault: Fault = "none"

    def chunks(self, tokens: int) -> list[int]:
        """Tokens of each chunk of an answer with so many."""
        first = min(tokens, self.first_tokens or self.tokens_per_chunk)
        rest = tokens - first
        whole, left = divmod(rest, self.tokens_per_chunk)
        return [first, *[self.tokens_per_chunk] * whole, *([left] if left else [])]


def pace_of(model: str, default: Pace) -> Pace | None:
    """The pace that a request's model asks for; None where there is no such model, ValueError where it has none."""
    name, _, options = model.partition(":")
    if name != MODEL:
        return None
    pairs = [part.partition("=") for part in options.split(",") if part]
    try:
        return Pace.model_validate({**default.model_dump(), **{key: value for key, _, value in pairs}})
    except ValidationError as error:
        raise ValueError("; ".join(field_problems(error))) from error
