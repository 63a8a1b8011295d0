"""A tokenizer in a file, whatever its form: a model's GGUF, or a ``tokenizer.json`` of the library ``tokenizers``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.gguf_file import MAGIC, read_gguf
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer
from inferbench_tasks.formats.token_batches import counted

#: Vocabularies of 260,000 entries with their merges take 35 MB.
_MOST_BYTES = 256 << 20


class TokenCounter(Protocol):
    """Counts the tokens of texts, without anything that a server puts around them."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""


class JsonTokenizer:
    """Of a ``tokenizer.json``, as models bring it beside their weights."""

    def __init__(self, path: Path) -> None:
        """InputError where the file is none."""
        try:
            if (size := path.stat().st_size) > _MOST_BYTES:
                raise InputError(
                    f"{path}: {size:,} bytes are no tokenizer's; at most {_MOST_BYTES:,} are read"
                )
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} can't be read: {error}") from error
        require("llm")
        from tokenizers import Tokenizer as Made

        try:
            self._tokenizer: Any = Made.from_str(text)
        except Exception as error:  # the library raises Exception itself
            raise InputError(
                f"{path} is neither a GGUF file nor a tokenizer.json of `tokenizers`: {str(error)[:200]}"
            ) from error
        # Some files say how inputs of a training were cut and filled up: a count would end there.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has; none of those that a template or the end of a text adds."""
        return counted(self._tokenizer, texts)


def token_counter(path: str | Path) -> TokenCounter:
    """Of a file of either form. InputError where it holds no tokenizer, or one whose texts can't be counted here."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error}") from error
    return Tokenizer(read_gguf(path).fields) if begin == MAGIC else JsonTokenizer(path)
