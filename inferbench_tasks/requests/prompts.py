"""Requests to language models: English prompts of drawn lengths, as the JSON of OpenAI's API.

With the server's tokenizer a prompt has exactly the tokens that were drawn, and what a chat template puts around it
comes on top. Without it the length is aimed at: what it was, the server's usage says.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from inferbench_tasks.clients.openai_form import Api
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.conversations import Turn, made_up, read_conversations, salted
from inferbench_tasks.requests.prose import TOKENS_PER_WORD, Count, Counted, Estimated, Prose
from inferbench_tasks.requests.ragged import objects, packed
from inferbench_tasks.requests.token_trace import TokenTrace, read_token_trace, texts_of
from inferbench_tasks.submission.token_lengths import Lengths

#: Of all bodies together.
_MOST_BYTES = 256 << 20
#: What each request sets, and the user's own fields may not undo: without them nothing of a stream is known.
_OWN_FIELDS = ("stream", "stream_options", "messages", "prompt", "model")


@dataclass(frozen=True)
class TraceFile:
    """A trace below a folder, see ``read_token_trace``."""

    base_dir: Path
    path: str
    names: dict[str, str] = field(default_factory=dict)
    block_tokens: int = 512

    def read(self) -> TokenTrace:
        """InputError with the line that is wrong."""
        return read_token_trace(self.base_dir, self.path, self.names, self.block_tokens)


@dataclass(frozen=True)
class PromptSet:
    """What requests carry. ``more``: fields for every body; one that is None is left out. ``salt``: see ``prompts``."""

    model: str
    api: Api
    input_tokens: Lengths
    output_tokens: Lengths
    salt: bool = True
    more: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    #: Different prefixes and the tokens of each; a prompt begins with one of them.
    prefix: tuple[int, int] | None = None
    #: Turns of a conversation, and ms from an answer to the next turn; None: each request is by itself, nobody thinks.
    turns: Lengths | None = None
    think_time_ms: Lengths | None = None
    #: The user's conversations, and how that was asked for.
    conversations: Path | None = None
    where: str = "--conversations"
    trace: TraceFile | None = None
    #: Counts texts as the server does; None where nobody knows how.
    count: Count | None = None

    @property
    def conversing(self) -> bool:
        """Whether requests are turns of conversations."""
        return self.turns is not None or self.conversations is not None


def prompts(
    tokens: Sequence[int],
    prose: Prose,
    rng: np.random.Generator,
    salt: str = "",
    prefixes: Sequence[str] = (),
) -> list[str]:
    """Prose of so many tokens each, beginning at random words; ``salt`` stands before each and is among its tokens.

    A salt that no other run has keeps a server's prefix cache of an earlier run from being found. Of ``prefixes`` one
    by chance stands before the salt: what is shared is to be found in the cache.
    """
    texts = []
    for wanted in tokens:
        text = prose.take(int(rng.integers(len(prose.words))), wanted, salt, behind=bool(prefixes))
        texts.append(f"{prefixes[int(rng.integers(len(prefixes)))]} {text}" if prefixes else text)
    return texts


def shared_prefixes(groups: int, tokens: int, seed: int, prose: Prose) -> list[str]:
    """So many different prefixes of so many tokens, each with its number; a seed gives the same in every run."""
    rng = np.random.default_rng([seed, 0x9F1])
    return [
        prose.take(int(rng.integers(len(prose.words))), tokens, f"{number}.")
        for number in range(1, groups + 1)
    ]


def write_prompts(wanted: PromptSet, count: int, path: Path, seed: int) -> int:
    """Write up to ``count`` requests as the inputs of a load; how many there are.

    ``request``: the JSON of each; ``max_tokens``: what it asks for, -1 for no limit; ``text_tokens``: those of its
    text by the server's tokenizer, -1 where nobody counted; ``drawn_tokens``: those that it was to have, -1 where none
    were drawn. InputError where the file of prompts is wrong. Of conversations ``count`` are written, a row for each
    turn with what is new in it, one conversation after the other: ``conversation`` (its number) and ``think_ns`` (from
    the last answer to the turn).
    """
    rng = np.random.default_rng([seed, 0x70C5])
    salt = secrets.token_hex(4) if wanted.salt else ""
    if wanted.conversing:
        return _write_conversations(wanted, _conversations(wanted, count, rng, salt, seed), path, rng)
    prose = _prose(wanted)
    drawn: NDArray[np.int64] | None = None
    lengths: NDArray[np.int64] | None = None
    if wanted.trace is not None:
        trace = wanted.trace.read().first(count)
        _check_size(int(trace.input_tokens.sum()), wanted.trace.path)
        texts = texts_of(trace, prose, wanted.trace.block_tokens, seed, salt)
        drawn, lengths = trace.output_tokens, trace.input_tokens
    elif wanted.file is not None:
        texts = [f"{salt} {text}" if salt else text for text in read_prompts(wanted.file)]
        texts = [texts[index % len(texts)] for index in range(max(count, len(texts)))]
    else:
        prefixes = shared_prefixes(*wanted.prefix, seed, prose) if wanted.prefix else ()
        lengths = wanted.input_tokens.draw(count, rng)
        texts = prompts(lengths.tolist(), prose, rng, salt, prefixes)
        lengths = lengths + (wanted.prefix[1] if wanted.prefix else 0)
    asked = _asked(wanted, len(texts), rng, drawn)
    bodies: list[bytes] = []
    total = 0
    for text, tokens in zip(texts, asked.tolist(), strict=True):
        bodies.append(body_of(wanted, text, tokens if tokens > 0 else None))
        total += len(bodies[-1])
        if total > _MOST_BYTES and wanted.trace is not None:
            raise InputError(
                f"{wanted.trace.path}: its prompts have more than {_MOST_BYTES >> 20} MiB; send fewer"
            )
        if total > _MOST_BYTES:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = len(bodies)
    arrays = {
        "request": objects(bodies),
        "max_tokens": asked[:rows],
        "text_tokens": _counted(wanted, texts[:rows]),
        "drawn_tokens": np.full(rows, -1, np.int64) if lengths is None else lengths[:rows],
    }
    write_archive(path, packed(arrays))
    return rows


def _prose(wanted: PromptSet) -> Prose:
    return Counted(wanted.count) if wanted.count is not None else Estimated()


def _counted(wanted: PromptSet, texts: Sequence[str | None]) -> NDArray[np.int64]:
    """The tokens of each text, -1 where nobody knows them: each once more as a whole, whatever it was made of."""
    tokens = np.full(len(texts), -1, np.int64)
    there = [row for row, text in enumerate(texts) if text is not None]
    if wanted.count is not None and there:
        tokens[there] = wanted.count([text for text in texts if text is not None])
    return tokens


def _check_size(tokens: int, what: str) -> None:
    """InputError for what would not fit into memory, before it is made."""
    size = tokens / TOKENS_PER_WORD * 6  # of a word and the blank behind it
    if size > _MOST_BYTES:
        raise InputError(
            f"{what}: about {size / 2**20:,.0f} MiB of prompts, more than {_MOST_BYTES >> 20}; send fewer"
        )


def _conversations(
    wanted: PromptSet, count: int, rng: np.random.Generator, salt: str, seed: int
) -> list[list[Turn]]:
    if wanted.conversations is not None:
        return [salted(turns, salt) for turns in read_conversations(wanted.conversations, wanted.where)]
    assert wanted.turns is not None
    turns = wanted.turns.draw(count, rng)
    mean = float(wanted.input_tokens.draw(1000, np.random.default_rng(seed)).mean())
    _check_size(int(turns.sum() * mean), f"{count:,} conversations")
    prose = _prose(wanted)
    prefixes = shared_prefixes(*wanted.prefix, seed, prose) if wanted.prefix else ()
    first = prompts(wanted.input_tokens.draw(count, rng).tolist(), prose, rng, salt, prefixes)
    later = wanted.input_tokens.draw(int(turns.sum()) - count, rng)
    return made_up(first, prompts(later.tolist(), prose, rng), turns)


def _write_conversations(
    wanted: PromptSet, conversations: list[list[Turn]], path: Path, rng: np.random.Generator
) -> int:
    """As ``write_prompts``; how many rows there are."""
    total = sum(map(len, conversations))
    asked = _asked(wanted, total, rng)
    think_ms = wanted.think_time_ms.draw(total, rng) if wanted.think_time_ms else np.zeros(total, np.int64)
    bodies: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, turns in enumerate(conversations):
        for turn in turns:
            most = int(asked[len(bodies)])
            bodies.append(body_of(wanted, turn, most if most > 0 else None))
            size += len(bodies[-1])
        numbers += [number] * len(turns)
        if size > _MOST_BYTES:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = len(bodies)
    # What a template puts between several messages is not told apart: only turns of one message are counted.
    alone = [turn[0]["content"] if len(turn) == 1 else None for turns in conversations for turn in turns][
        :rows
    ]
    arrays = {
        "request": objects(bodies),
        "max_tokens": asked[:rows],
        "text_tokens": _counted(wanted, alone),
        "drawn_tokens": np.full(rows, -1, np.int64),
        "conversation": np.array(numbers, np.int64),
        "think_ns": think_ms[:rows] * 1_000_000,
    }
    write_archive(path, packed(arrays))
    return rows


def _asked(
    wanted: PromptSet, count: int, rng: np.random.Generator, drawn: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The most tokens that each request asks for: the user's own field, under either name, counts."""
    if drawn is None:
        drawn = wanted.output_tokens.draw(count, rng)
    given = [wanted.more[name] for name in ("max_tokens", "max_completion_tokens") if name in wanted.more]
    numbers = [value for value in given if isinstance(value, int) and not isinstance(value, bool)]
    if numbers:
        return np.full(count, max(numbers), np.int64)
    return np.full(count, -1, np.int64) if given else drawn


def body_of(wanted: PromptSet, said: str | Turn, max_tokens: int | None) -> bytes:
    """One request's JSON: a prompt, or the messages of a turn. Tokens are counted by the server: usage is asked for."""
    if clash := [name for name in _OWN_FIELDS if name in wanted.more]:
        raise InputError(f"--extra-body: {clash[0]!r} is set by the load itself")
    content: dict[str, Any]
    if wanted.api == "chat":
        content = {"messages": [{"role": "user", "content": said}] if isinstance(said, str) else said}
    else:
        content = {"prompt": said}
    fields = {
        "model": wanted.model,
        **content,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        **wanted.more,
    }
    return orjson.dumps({name: value for name, value in fields.items() if value is not None})


def read_prompts(path: Path) -> list[str]:
    """The user's prompts: JSON Lines, each with a text under ``prompt``. InputError with the line that has none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"--prompts: {path} can't be read: {error}") from error
    texts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text = orjson.loads(line)["prompt"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"--prompts: {path}, line {number}: no JSON object with a `prompt`") from error
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"--prompts: {path}, line {number}: `prompt` is no text")
        texts.append(text)
    if not texts:
        raise InputError(f"--prompts: {path} has no prompts")
    return texts
