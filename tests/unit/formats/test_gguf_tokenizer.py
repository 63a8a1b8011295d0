"""The tokenizer that is built of a GGUF file's fields, against what is counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer
from tests.gguf_files import fields


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ("", 0),
        ("the", 2),  # t, he
        (" the", 1),
        (" then", 2),
        ("all", 2),  # a, ll
        (" 12", 3),  # a digit is a token, and so is the blank before it
        ("é", 2),  # two bytes
        ("<|im_start|> the", 2),
        ("a<|im_end|>a", 3),
    ],
)
def test_tokens_by_hand(said: str, tokens: int) -> None:
    """And the tokens say the text again."""
    tokenizer = Tokenizer(fields())
    assert tokenizer.count([said]) == [tokens] == [len(tokenizer.ids(said))]
    assert tokenizer.text(tokenizer.ids(said)) == said.replace("<|im_start|>", "").replace("<|im_end|>", "")


def test_more_texts_than_a_batch_keep_their_order() -> None:
    """1,100 of them."""
    assert Tokenizer(fields()).count([" the" * (n % 7) for n in range(1100)]) == [n % 7 for n in range(1100)]


def test_a_makers_own_token_is_text() -> None:
    """A token by itself, and said again: only those of control say nothing."""
    first = fields()["tokenizer.ggml.tokens"]
    types = [3 if token.startswith("<|") else 1 for token in first]
    own = fields(
        **{"tokenizer.ggml.tokens": [*first, "<file_sep>"], "tokenizer.ggml.token_type": [*types, 4]}
    )
    tokenizer = Tokenizer(own)
    ids = tokenizer.ids("the<file_sep>the<|im_end|>")
    assert ids[2] == len(first) and tokenizer.text(ids) == "the<file_sep>the"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer.ggml.model": "llama"}, "'llama' cut as 'smollm'; those of 'gpt2' cut as smollm"),
        ({"tokenizer.ggml.pre": "qwen2"}, "'gpt2' cut as 'qwen2'"),
        ({"tokenizer.ggml.pre": None}, "cut as 'None'"),
        ({"tokenizer.ggml.pre": ["smollm"]}, "cut as"),
        ({"tokenizer.ggml.merges": None}, "has no merges"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "has no tokens"),
        ({"tokenizer.ggml.merges": ["ab"]}, "a merge is of no two tokens"),
        ({"tokenizer.ggml.merges": ["zz zz"]}, "tokenizer is damaged"),
    ],
)
def test_what_cannot_be_counted_says_why(changes: dict[str, Any], words: str) -> None:
    """A tokenizer that nobody compared with llama.cpp's ids counts nothing."""
    with pytest.raises(InputError, match=words):
        Tokenizer(fields(**changes))
