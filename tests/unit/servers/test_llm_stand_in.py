"""The paced server of streams: what it was told to do, and that it says what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.clients.openai_form import read_stream
from inferbench_tasks.servers.llm_stand_in.answer import NO_MODEL, Asked, pieces_of, whole_answer
from inferbench_tasks.servers.llm_stand_in.connection import read_request
from inferbench_tasks.servers.llm_stand_in.pace import Pace, pace_of

ASKED = Asked(chat=True, model="stand-in", prompt_tokens=5, output_tokens=10, stream=True, usage=True)


@given(st.integers(1, 300), st.integers(1, 40), st.none() | st.integers(1, 400))
def test_chunks_have_all_tokens(tokens: int, size: int, first: int | None) -> None:
    """None empty, none larger than asked for, the first as asked for."""
    chunks = Pace(tokens_per_chunk=size, first_tokens=first).chunks(tokens)
    assert sum(chunks) == tokens
    assert chunks[0] == min(tokens, first or size)
    assert all(1 <= count <= size for count in chunks[1:])


def test_pieces_are_due_as_the_pace_says() -> None:
    """The role at once, then a chunk with each gap; the end comes with the last one."""
    pieces = pieces_of(ASKED, Pace(ttft_ms=50, gap_ms=20, tokens_per_chunk=4))
    assert [(piece.due_ms, piece.tokens) for piece in pieces] == [(0, 0), (50, 4), (70, 4), (90, 2), (90, 0)]
    stream = read_stream(b"".join(piece.data for piece in pieces), 10)
    assert (stream.problem, stream.output_tokens, stream.prompt_tokens) == (None, 10, 5)


def test_every_answer_says_that_there_is_no_model() -> None:
    """Each chunk of a stream, and a whole answer."""
    pieces = pieces_of(ASKED, Pace())
    assert all(NO_MODEL.encode() in piece.data for piece in pieces)
    assert NO_MODEL.encode() in whole_answer(ASKED)


def test_a_model_carries_its_pace() -> None:
    """On top of the server's own; another model there is not."""
    assert pace_of("stand-in:gap_ms=3,role=false", Pace(ttft_ms=7)) == Pace(ttft_ms=7, gap_ms=3, role=False)
    assert pace_of("gpt", Pace()) is None
    with pytest.raises(ValueError, match="fault"):
        pace_of("stand-in:fault=unheard", Pace())


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"messages": []}', b'{"messages": [{"content": 3}]}',
             b'{"messages": [{"content": "a"}], "max_tokens": 0}'],
)  # fmt: skip
def test_a_request_without_a_text_or_with_no_length_is_none(body: bytes) -> None:
    """It is refused with words."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_request(body, chat=True)
