"""What requests to language models carried, as a trace recorded it: input and output tokens, shared prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.arrivals.trace_file import column_names, file_inside, is_lines, read_column
from inferbench_tasks.arrivals.trace_lines import read_field
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.prose import Prose

#: Columns of input and output tokens: Azure's, Mooncake's, and those of many others.
_KNOWN = (
    ("ContextTokens", "GeneratedTokens"),
    ("input_length", "output_length"),
    ("input_tokens", "output_tokens"),
)
_HASH_IDS = "hash_ids"
MOST_ROWS = 100_000
_MOST_TOKENS = 1_000_000


@dataclass(frozen=True)
class TokenTrace:
    """Of each request its tokens, and of its prompt's blocks ids, equal where the text up to there is; or None."""

    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    hash_ids: list[list[int]] | None

    def first(self, count: int) -> TokenTrace:
        """The first so many requests."""
        ids = self.hash_ids
        return TokenTrace(
            self.input_tokens[:count], self.output_tokens[:count], ids[:count] if ids is not None else None
        )


def read_token_trace(base_dir: Path, path: str, names: Mapping[str, str], block_tokens: int) -> TokenTrace:
    """``names``: of the columns ``input_tokens``, ``output_tokens``, ``hash_ids`` where they have others than usual.

    InputError with the line for what is no length, and for ids that don't fit the length (a block has
    ``block_tokens``, the last one up to that).
    """
    file = file_inside(base_dir, path)
    there = column_names(file, path)
    usual = next((pair for pair in _KNOWN if set(pair) <= set(there)), _KNOWN[0])
    lengths = {
        what: _lengths(file, path, names.get(what) or name)
        for what, name in zip(("input_tokens", "output_tokens"), usual, strict=True)
    }
    rows = len(lengths["input_tokens"])
    if not rows:
        raise InputError(f"{path} holds no request")
    ids = None
    if names.get(_HASH_IDS) or _HASH_IDS in there:
        ids = _ids(file, path, names.get(_HASH_IDS) or _HASH_IDS)
        for row, (blocks, tokens) in enumerate(zip(ids, lengths["input_tokens"].tolist(), strict=True)):
            if len(blocks) != -(-tokens // block_tokens):
                raise InputError(
                    f"{path}, {at_row(path, row)}: {len(blocks)} {_HASH_IDS} for {tokens} tokens in blocks of "
                    f"{block_tokens} (block_tokens)"
                )
    return TokenTrace(lengths["input_tokens"], lengths["output_tokens"], ids)


def at_row(path: str, row: int) -> str:
    """Where a request stands in the file, in words.

    Of CSV the head is the first line; empty lines of the file are not counted.
    """
    return f"request {row + 1}" if is_lines(path) else f"row {row + 1}"


def _lengths(file: Path, path: str, column: str) -> NDArray[np.int64]:
    import pyarrow as pa

    try:
        values = read_column(file, path, column)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} can't be read as a trace: {error}") from error
    if len(values) > MOST_ROWS:
        raise InputError(f"{path} holds more than {MOST_ROWS:,} requests; cut it")
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise InputError(f"{path}: column {column} holds {values.type}, no numbers of tokens")
    numbers = np.asarray(values.cast(pa.float64()).fill_null(np.nan))
    wrong = np.flatnonzero(~((numbers >= 1) & (numbers <= _MOST_TOKENS) & (numbers == np.floor(numbers))))
    if wrong.size:
        row = int(wrong[0])
        text = "missing" if np.isnan(numbers[row]) else f"{numbers[row]:g}"
        raise InputError(
            f"{path}, {at_row(path, row)}: {column} is {text}; tokens are whole numbers from 1 to {_MOST_TOKENS:,}"
        )
    return numbers.astype(np.int64)


def _ids(file: Path, path: str, column: str) -> list[list[int]]:
    if is_lines(path):
        of_lines, lines = read_field(file, path, column, MOST_ROWS)
        for value, line in zip(of_lines, lines, strict=True):
            if not _is_ids(value):
                raise InputError(f"{path}, line {line}: {column} is no list of whole numbers")
        return of_lines
    if not path.lower().endswith(".parquet"):
        raise InputError(f"{path}: a CSV has no lists, so no column {column}; use .jsonl or .parquet")
    lists: list[Any] = read_column(file, path, column).to_pylist()
    for row, value in enumerate(lists):
        if not _is_ids(value):
            raise InputError(f"{path}, row {row + 1}: {column} is no list of whole numbers")
    return lists


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) for item in value
    )


def texts_of(trace: TokenTrace, prose: Prose, block_tokens: int, seed: int, salt: str) -> list[str]:
    """A prompt of so many tokens for each request; equal ids in front of it are equal words in front of it.

    A block begins with its id, so that no two are the same text. ``salt`` stands before all.
    """
    rng = np.random.default_rng([seed, 0x7ACE])
    blocks: dict[int, list[str]] = {}
    texts = []
    for row, tokens in enumerate(trace.input_tokens.tolist()):
        if trace.hash_ids is None:
            texts.append(prose.take(int(rng.integers(len(prose.words))), tokens, salt))
            continue
        said: list[str] = []
        for number in trace.hash_ids[row]:
            if number not in blocks:
                draw = np.random.default_rng([seed, 0xB10C, number & (2**64 - 1)])
                start = int(draw.integers(len(prose.words)))
                blocks[number] = prose.take(start, block_tokens, f"{number}.", behind=True).split(" ")
            said += blocks[number]
        texts.append(prose.fit(said, tokens, salt))
    return texts
