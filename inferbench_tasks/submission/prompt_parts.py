"""Of ``requests`` to language models: what many prompts begin with, and what a trace's columns are called."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from inferbench_tasks.contracts.spec import Spec


class SharedPrefixSpec(Spec):
    """Each prompt begins with the prefix of one of the groups, by chance."""

    groups: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Different prefixes."""
    tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 128
    """How long each is; the prompt's own length (``input_tokens``) comes behind it."""


ColumnName = Annotated[str, Field(min_length=1, max_length=200)]


class TraceColumnsSpec(Spec):
    """What the columns of a trace are called; null: as usual."""

    input_tokens: ColumnName | None = None
    """Tokens of the prompt."""
    output_tokens: ColumnName | None = None
    """Tokens of the answer, asked for as ``max_tokens``."""
    hash_ids: ColumnName | None = None
    """A list of each request: of its prompt's blocks, equal where the text up to there is equal."""
