"""A tokenizer in a file: which form it has, and what it counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.gguf_file import read_gguf
from inferbench_tasks.formats.gguf_tokenizer import not_counted
from inferbench_tasks.formats.token_counter import token_counter
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.requests.prompts import PromptSet, write_prompts
from inferbench_tasks.submission.token_lengths import Fixed
from tests.gguf_files import fields, written


def words_file(folder: Path, **more: Any) -> Path:
    """A ``tokenizer.json`` for which each word and each sign is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer: Any = Tokenizer(models.WordLevel({"?": 0, "[B]": 1}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[B] $A [B]", special_tokens=[("[B]", 1)])
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(tokenizer.to_str()), **more}))
    return path


def test_a_gguf_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    """Not by its name; one whose texts can't be counted here says why."""
    file = written(tmp_path)
    assert token_counter(file.rename(tmp_path / "vocabulary.bin")).count([" the all"]) == [3]
    other = {"tokenizer.ggml.pre": "qwen2"}
    assert not_counted(fields(**other))
    with pytest.raises(InputError, match="cut as 'qwen2'"):
        token_counter(written(tmp_path, **other))


def test_what_a_template_adds_and_what_a_training_cut_off_is_not_counted(tmp_path: Path) -> None:
    """The file says: at most 3 tokens, filled up to 5, one before and one behind."""
    cut = {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    pad = {
        "strategy": {"Fixed": 5}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "?",
    }  # fmt: skip
    counter = token_counter(words_file(tmp_path, truncation=cut, padding=pad))
    assert counter.count(["a b c d e f g", "a", ""]) == [7, 1, 0]
    assert counter.count(["a b"] * 1100) == [2] * 1100


def _letters() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer: Any = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return tokenizer


def _blank_before_all() -> Any:
    """As SentencePiece's: a text begins with a blank of the tokenizer's own."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer: Any = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return tokenizer


@pytest.mark.parametrize(("made", "short"), [(_blank_before_all, 0), (_letters, 30)])
@pytest.mark.parametrize("prefix", [None, (2, 40)])
def test_prompts_are_as_long_as_any_tokenizer_counts_them(
    tmp_path: Path, made: Callable[[], Any], short: int, prefix: tuple[int, int] | None
) -> None:
    """Exactly where words have tokens of their own; by letters they end short of a word."""
    made().save(str(tmp_path / "t.json"))
    counter = token_counter(tmp_path / "t.json")
    length = Fixed(kind="fixed", value=200)
    wanted = PromptSet(
        model="m",
        api="completions",
        input_tokens=length,
        output_tokens=length,
        prefix=prefix,
        count=counter.count,
    )
    write_prompts(wanted, 20, tmp_path / "r.npz", seed=1)
    tokens: list[int] = read_inputs(str(tmp_path / "r.npz"))["text_tokens"].tolist()
    whole = 200 + (40 if prefix else 0)
    assert len(tokens) == 20 and whole - short <= min(tokens) <= max(tokens) <= whole


_ALLOWED = "can't be read as a GGUF file or a tokenizer.json of `tokenizers`: "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", _ALLOWED),
        (b"", _ALLOWED),
        (b"\xff\xfe", _ALLOWED + "it is no text in UTF-8"),
        (b"GGUF", "cut off"),
        (None, _ALLOWED),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    """With its path and what it should be."""
    path = tmp_path / "t.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        token_counter(path)
    assert "t.json" in str(refused.value)


@pytest.mark.parametrize("read", [token_counter, read_gguf])
def test_what_is_no_plain_file_is_refused_unread(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    """A device would fill the memory, a pipe be waited for: both say that they have no bytes."""
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (Path("/dev/zero"), "no plain file"),
        (tmp_path / "pipe", "no plain file"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises(InputError, match=f"can't be read.*: it is {reason}"):
            read(path)
