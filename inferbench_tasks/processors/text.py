"""Texts to token ids, by the tokenizer file that a model was published with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from inferbench_tasks.artifacts.plain_file import read_plain
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require

MAX_FILE_BYTES = 64 << 20


class Tokenizer:
    """``input_ids`` and ``attention_mask``, ``n x longest`` int64, padded with id 0.

    ``path`` is a ``tokenizer.json``; texts are cut at ``max_tokens``.
    """

    kind: ClassVar[str] = "tokenizer"

    def __init__(self, path: Path | str, max_tokens: int = 256) -> None:
        require("torch")
        import tokenizers

        path = Path(path)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(read_plain(path, MAX_FILE_BYTES).decode())
        except Exception as error:
            raise InputError(f"The tokenizer {path} can't be read: {error}") from error
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.enable_padding()

    def __call__(self, texts: Sequence[str | bytes]) -> Arrays:
        """``texts`` as such or in UTF-8, as they come over the wire."""
        encoded = self._tokenizer.encode_batch([_text(text, at) for at, text in enumerate(texts)])
        return {
            "input_ids": np.array([e.ids for e in encoded], dtype=np.int64),
            "attention_mask": np.array([e.attention_mask for e in encoded], dtype=np.int64),
        }


def _text(value: str | bytes, at: int) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"Text {at} is not UTF-8: {error}") from error
