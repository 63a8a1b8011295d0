"""What a stream says, and which streams are no answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.clients.openai_form import (
    BAD,
    CONTENT,
    NONE,
    REASONING,
    TOOL_CALL,
    StreamTarget,
    encode_request,
    read_stream,
    without_key,
)
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.ragged import objects


def event(document: Any) -> bytes:
    """An event with that document."""
    return b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """A chunk of a chat's stream."""
    return event({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more})


def usage(output: int, **more: Any) -> bytes:
    """The usage's own chunk."""
    return event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": output, **more}})


ROLE, A, B = chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}), chunk({"content": "bc"})
END, DONE = chunk({}, "stop"), b"data: [DONE]\n\n"


def test_only_text_makes_a_token_chunk() -> None:
    """A role, null, an empty text, the finish reason and the usage carry no token; reasoning and tool calls do."""
    tool = {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]}
    name = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}
    thought, thought2 = {"reasoning_content": "hm"}, {"content": None, "reasoning": "so"}
    text = event({"choices": [{"index": 0, "text": "t", "finish_reason": None}]})
    body = (
        ROLE + chunk({"content": None}) + b"".join(chunk(delta) for delta in (thought, thought2, name, tool))
    )
    body += A + text + END + usage(6) + DONE
    stream = read_stream(body)
    assert stream.problem is None
    assert stream.kinds == [
        NONE, NONE, REASONING, REASONING, NONE, TOOL_CALL, CONTENT, CONTENT, NONE, NONE
    ]  # fmt: skip
    assert stream.text_bytes == [0, 0, 2, 2, 0, 4, 1, 1, 0, 0]
    assert (stream.chunks, stream.output_tokens, stream.prompt_tokens) == (5, 6, 9)


@pytest.mark.parametrize("indices", [(1,), (0, 1), (1, 0)])
def test_several_answers_to_one_request_are_none(indices: tuple[int, ...]) -> None:
    """Usage counts the tokens of all, chunks were those of the first: the time per token was half of what it is."""
    other = event({"choices": [{"index": index, "delta": {"content": "x"}} for index in indices]})
    stream = read_stream(A + other + B + END + usage(6) + DONE)
    assert stream.problem is not None and stream.problem[0] == "stream_choices"


@pytest.mark.parametrize(
    "body",
    [
        A + usage(2) + B + END + DONE,  # in the middle: of two chunks of two tokens the first one's
        usage(0) + A + B + END + DONE,  # in front, for the prompt
        chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 2}) + B + END + DONE,
    ],
)
def test_usage_that_tokens_follow_is_not_of_the_whole(body: bytes) -> None:
    """Tokens that come after a count are not in it: N is not known then; those of the prompt are."""
    stream = read_stream(body)
    assert (stream.problem, stream.output_tokens, stream.prompt_tokens) == (None, None, 9)


def test_usage_that_comes_with_each_chunk_tells_the_first_ones_tokens() -> None:
    """The last usage counts as the whole's, the one with the first token chunk as that chunk's."""
    body = chunk({"role": "assistant"}, usage={"completion_tokens": 0})
    body += chunk({"content": "abc"}, usage={"completion_tokens": 3})
    body += chunk({"content": "d"}, usage={"completion_tokens": 4}) + END + DONE
    stream = read_stream(body)
    assert (stream.first_tokens, stream.output_tokens) == (3, 4)


def test_nothing_is_made_of_what_a_server_does_not_tell() -> None:
    """Without usage the counts are None, not chunks; counts that are no numbers are none."""
    stream = read_stream(
        A + B + END + event({"usage": {"completion_tokens": "2", "prompt_tokens": -1}}) + DONE
    )
    assert (stream.output_tokens, stream.prompt_tokens, stream.cached_tokens) == (None, None, None)
    assert read_stream(A + END + usage(1, prompt_tokens_details={"cached_tokens": 4})).cached_tokens == 4


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", "stream_missing"),
        (b'{"choices": [{"message": {"content": "whole"}}]}', "stream_missing"),
        (b"\x1f\x8b\x08" + bytes(20), "stream_missing"),
        (b"<html>bad gateway</html>\n\n", "stream_missing"),
        (A + event(b'{"choices": [{"delta": {"content": "b"}') + END + DONE, "stream_json"),
        (A + event([1]) + END + DONE, "stream_json"),
        (A + event({"choices": "none"}) + END + DONE, "stream_json"),
        (A + event(b'{"choices": "\xff"}') + END + DONE, "stream_encoding"),
        (A + event({"error": {"message": "out of memory"}}) + END + DONE, "stream_error"),
        (A + b'event: error\ndata: {"message": "out of memory"}\n\n' + END, "stream_error"),
        (A + event({"error": {}}) + END + DONE, "stream_error"),
        (A + END + event({"error": {"message": "late"}}) + DONE, "stream_error"),
        (A + chunk({}, "abort") + usage(1) + DONE, "stream_error"),
        (A + chunk({}, "Timeout") + usage(1) + DONE, "stream_error"),
        (A + chunk({}, "abort") + chunk({}, "stop") + usage(1) + DONE, "stream_error"),
        (
            A + event({"choices": [{"index": 0, "delta": {}, "finish_reason": {"type": "abort"}}]}),
            "stream_json",
        ),
        (A + chunk({}, "error") + usage(1) + DONE, "stream_error"),
        (chunk({"role": "assistant"}, "") + chunk({"content": "a"}, "") + DONE, "stream_unfinished"),
        (ROLE + END + usage(0) + DONE, "stream_empty"),
        (ROLE + A + B + DONE, "stream_unfinished"),
        (ROLE + A + B, "stream_unfinished"),
        (A + B + A + B + END + usage(4) + DONE, "stream_too_many"),
        (A + END + usage(4) + DONE, "stream_too_many"),
        (A + B + A + B + END + DONE, "stream_too_many"),
        (A + B + A + END + usage(2) + DONE, "stream_usage"),
    ],
)
def test_what_is_no_answer_has_a_name(body: bytes, status: str) -> None:
    """Each with words on what was seen; three tokens were asked for."""
    problem = read_stream(body, 3).problem
    assert problem is not None
    assert problem[0] == status and problem[1].startswith(BAD[status])


@pytest.mark.parametrize(
    "body",
    [
        A + END,
        A + END + DONE,
        A + END + usage(1) + DONE,
        ROLE + B + END + usage(3),
        chunk({"content": "a"}, "", error=None) + END,
    ],
)
def test_forms_of_the_same_answer_are_all_good(body: bytes) -> None:
    """With or without ``[DONE]``, usage and role; what is empty is no finish reason and no error."""
    assert read_stream(body, 3).problem is None


@given(
    st.binary(max_size=200), st.lists(st.sampled_from([ROLE, A, END, DONE, b"data: {}\n\n", b"data: 1\n\n"]))
)
def test_no_stream_makes_it_fail(noise: bytes, parts: list[bytes]) -> None:
    """Whatever comes is judged."""
    stream = read_stream(noise + b"".join(parts) + noise, 2)
    assert len(stream.kinds) == len(stream.text_bytes) == len(stream.ends)


def test_a_request_names_its_host_and_carries_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key comes from the environment; the target itself has the variable's name only."""
    monkeypatch.setenv("A_KEY", "sk-secret")
    target = StreamTarget(path="/v1/completions", api_key_env="A_KEY")
    endpoint = Endpoint(protocol="openai", host="h", port=80, model_name="m")
    wire = encode_request(endpoint, target, {"request": objects([b"{}"])})
    assert wire.startswith(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\n") and wire.endswith(b"\r\n\r\n{}")
    assert b"\r\nAuthorization: Bearer sk-secret\r\n" in wire
    assert "sk-secret" not in target.model_dump_json()


@pytest.mark.parametrize("key", ["", "two words", "line\r\nX-Evil: 1"])
def test_a_key_that_is_none_is_refused_without_being_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could write a header of its own; the message names the variable."""
    monkeypatch.setenv("A_KEY", key)
    with pytest.raises(InputError, match="A_KEY") as raised:
        StreamTarget(path="/", api_key_env="A_KEY").key()
    assert not key or key not in str(raised.value)


def test_a_server_that_repeats_the_key_does_not_make_us_show_it() -> None:
    """As OpenAI's own message of a wrong key does."""
    assert without_key("Incorrect API key provided: sk-1.", "sk-1") == "Incorrect API key provided: ***."
    assert without_key("nothing", None) == "nothing"


def test_a_key_within_which_words_were_cut_is_not_shown() -> None:
    """Of 300 characters of a server's words, or 80 of what is no stream, the last may be a key's first; keys that JSON
    or Python write otherwise in quotes are keys too."""
    key = "sk-SECRET0123456789abcdefg"
    for status, body in (
        ("stream_error", event({"error": {"message": "x" * 270 + key}})),
        ("stream_missing", b"y" * 60 + key.encode()),
    ):
        problem = read_stream(body).problem
        assert problem is not None and problem[0] == status and "sk-SECRET" in problem[1]
        assert "sk-S" not in without_key(problem[1], key) and without_key(problem[1], key).endswith("***")
    odd = "k'\"\\secret"
    for said in (odd, json.dumps({"e": odd}), repr({"e": odd}), str({"e": json.dumps(odd)})):
        assert "secret" not in without_key(said, odd), said
    for said in (r'{"e":"ab\u002bcd\/ef==gh\u0026ij"}', r'{"e":"ab\u002Bcd\/ef'):
        assert "cd" not in without_key(said, "ab+cd/ef==gh&ij"), said
    assert without_key("a task", "sk-SECRET") == "a task"
