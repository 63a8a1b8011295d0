"""How many tokens a stream's first chunk had."""

from __future__ import annotations

import pytest

from inferbench_tasks.clients.openai_form import CONTENT, NONE, REASONING, StreamText
from inferbench_tasks.loadgen.token_streams import first_chunk_tokens


@pytest.mark.parametrize(
    ("sizes", "tokens", "told", "expected"),
    [
        ([4, 4, 4], 3, None, (1, 1)),
        ([20], 5, None, (5, 1)),
        ([4, 8], 6, 3, (3, 1)),
        ([4, 8, 12], 12, None, (2, 2)),
        ([1, 99, 100], 50, None, (1, 2)),
        ([99, 1, 1], 4, None, (2, 2)),
        ([4, 8, 12], None, None, (-1, 0)),
        ([4, 8, 12], 2, None, (-1, 0)),
        ([4, 8], 6, 6, (2, 2)),
    ],
)
def test_how_the_first_chunks_tokens_are_known(
    sizes: list[int], tokens: int | None, told: int | None, expected: tuple[int, int]
) -> None:
    """Exactly by usage where that follows, else by the text's share, with one token at least in every other chunk."""
    kinds = [NONE, *([CONTENT] * (len(sizes) - 1)), REASONING]
    text = StreamText(kinds=kinds, text_bytes=[0, *sizes], ends=[], output_tokens=tokens, first_tokens=told)
    text.chunks = len(sizes)
    assert first_chunk_tokens(text) == expected


@pytest.mark.parametrize(
    ("sizes", "text_tokens", "expected"),
    [
        ([4, 8, 12], 12, (2, 2)),
        ([4, 8, 12], 3, (1, 2)),
        ([4, 8, 12], 2, (-1, 0)),
        ([20], 5, (5, 2)),
        ([4, 8], 0, (-1, 0)),
        ([4, 8], -1, (-1, 0)),
    ],
)
def test_the_first_chunks_tokens_of_those_that_a_tokenizer_counted(
    sizes: list[int], text_tokens: int, expected: tuple[int, int]
) -> None:
    """By the text's share; fewer tokens than there were chunks are not the model's, and nothing is known."""
    text = StreamText(kinds=[CONTENT] * len(sizes), text_bytes=sizes, ends=[], chunks=len(sizes))
    assert first_chunk_tokens(text, text_tokens) == expected
    text.output_tokens = 30
    assert first_chunk_tokens(text, text_tokens)[0] > 0  # usage comes first
