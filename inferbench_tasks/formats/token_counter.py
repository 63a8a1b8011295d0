"""A tokenizer in a file, whatever its form: a model's GGUF, or a ``tokenizer.json`` of the library ``tokenizers``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from inferbench_tasks.artifacts.plain_file import check_plain, read_plain
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
            text = read_plain(path, _MOST_BYTES).decode()
        except OSError as error:
            raise _refused(path, error) from error
        except UnicodeDecodeError as error:
            raise _refused(path, "it is no text in UTF-8") from error
        require("llm")
        from tokenizers import Tokenizer as Made

        try:
            self._tokenizer: Any = Made.from_str(text)
        except Exception as error:  # the library raises Exception itself
            raise _refused(path, str(error)[:200]) from error
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
        check_plain(path)
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise _refused(path, error) from error
    return Tokenizer(read_gguf(path).fields) if begin == MAGIC else JsonTokenizer(path)


def _refused(path: Path, reason: object) -> InputError:
    return InputError(f"{path} can't be read as a GGUF file or a tokenizer.json of `tokenizers`: {reason}")
