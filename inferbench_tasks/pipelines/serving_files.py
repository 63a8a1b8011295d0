"""What is wrong with the contents of files that a serving job names, as far as it can be read without a server.

Conversations are read whole, of a model in GGUF its head, of the user's data which splits they have.
What takes a tokenizer is looked at when the job's requests are made (``stages.prompted``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from inferbench_tasks.errors import InputError
from inferbench_tasks.stamps import Stamp, stamp_or_none
from inferbench_tasks.submission.context import Longest, Slot
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec


@dataclass(frozen=True)
class Head:
    """Of a model in GGUF: what is wrong with it, and the tokens that it was made for, where it says so."""

    problem: str | None
    context_tokens: int | None = None


def file_findings(spec: JobSpec, base_dir: Path, slot_tokens: int | None) -> Iterator[Finding]:
    """``slot_tokens``: of the job's backend, see ``Backend.slot_tokens``. The files lie below ``base_dir``."""
    if spec.requests.kind == "conversations" and spec.requests.path is not None:
        path = base_dir / spec.requests.path
        if problem := _conversations_problem(path, stamp_or_none(path)):
            yield Finding(("requests.path",), problem)
    if spec.evaluate is not None and spec.evaluate.split is not None and spec.evaluate.path is not None:
        assert spec.evaluate.dataset is not None
        path = base_dir / spec.evaluate.path
        # A folder's stamp tells nothing of what lies deeper.
        look = _split_problem if path.is_file() else _split_problem.__wrapped__
        found = look(spec.evaluate.dataset, path, spec.evaluate.split, stamp_or_none(path))
        if found is not None:
            yield Finding((found[0],), found[1])
    if spec.model.kind == "file" and spec.model.path.lower().endswith(".gguf"):
        path = base_dir / spec.model.path
        head = _head(path, stamp_or_none(path))
        if head.problem is not None:
            yield Finding(("model.path",), head.problem)
        elif head.context_tokens is not None:
            yield from _context_findings(spec, head.context_tokens, slot_tokens)


def _context_findings(spec: JobSpec, most: int, slot_tokens: int | None) -> Iterator[Finding]:
    """What the model was not made for: slots that are larger, prompts and answers that are longer."""
    asked = spec.serve.context_tokens
    if asked is not None and asked > most:
        message = f"{asked:,} are more than the model takes, {most:,} for prompt and answer together"
        yield Finding(("serve.context_tokens", "model.path"), message)
        return
    slot = Slot.of(spec, slot_tokens)
    if slot is None or spec.requests.kind != "prompts" or slot.tokens <= most:
        return  # ``submission.context`` has compared it with the slot
    longest = Longest.of(spec)
    if (tokens := longest.tokens()) > most:
        message = f"{longest.words()} are {tokens:,} tokens, more than the {most:,} that the model takes"
        yield Finding((longest.fields()[0], "model.path"), message)


@lru_cache(maxsize=64)
def _conversations_problem(path: Path, stamp: Stamp) -> str | None:
    from inferbench_tasks.requests.conversations import read_conversations

    try:
        read_conversations(path, "")
    except InputError as error:
        return error.message.removeprefix(": ")
    return None


@lru_cache(maxsize=64)
def _split_problem(dataset: str, path: Path, split: str, stamp: Stamp) -> tuple[str, str] | None:
    """The field and what is wrong: there is no such split, or the data can't be read."""
    from inferbench_tasks.datasets.base import DATASETS, unknown_split

    source = DATASETS.load(dataset, "evaluate.dataset")()
    try:
        problem = unknown_split(dataset, source, path, split) if source.takes_path else None
    except InputError as error:
        return error.field or "evaluate.path", error.message
    return None if problem is None else ("evaluate.split", problem)


@lru_cache(maxsize=64)
def _head(path: Path, stamp: Stamp) -> Head:
    from inferbench_tasks.formats.gguf_file import read_gguf

    try:
        return Head(None, read_gguf(path).context_tokens)
    except InputError as error:
        return Head(error.message)
