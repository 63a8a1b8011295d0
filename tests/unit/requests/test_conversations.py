"""Conversations from a file and made up, as rows of turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.requests.conversations import read_conversations
from inferbench_tasks.requests.prompts import PromptSet, write_prompts
from inferbench_tasks.submission.schema import RequestsSpec
from inferbench_tasks.submission.token_lengths import Fixed, Uniform


def rows(tmp_path: Path, count: int = 6, **options: Any) -> dict[str, Any]:
    """The inputs of a load of conversations, bodies decoded."""
    fields: dict[str, Any] = {
        "input_tokens": Fixed(kind="fixed", value=13),
        "output_tokens": Fixed(kind="fixed", value=4),
        "salt": False,
        **options,
    }
    write_prompts(PromptSet(model="m", api="chat", **fields), count, tmp_path / "r.npz", seed=5)
    inputs = read_inputs(str(tmp_path / "r.npz"))
    return {**inputs, "request": [json.loads(body) for body in inputs["request"]]}


def talks(tmp_path: Path, *lines: Any) -> Path:
    """A file of conversations."""
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_turns_are_rows_one_conversation_after_the_other(tmp_path: Path) -> None:
    """Each turn has its own words alone; pauses and lengths are drawn for each."""
    inputs = rows(
        tmp_path,
        turns=Uniform(kind="uniform", min=1, max=4),
        think_time_ms=Uniform(kind="uniform", min=10, max=500),
    )
    numbers = inputs["conversation"].tolist()
    assert numbers == sorted(numbers) and set(numbers) == set(range(6))
    assert len({numbers.count(number) for number in numbers}) > 1 and max(map(numbers.count, numbers)) <= 4
    assert all(len(body["messages"]) == 1 and body["max_tokens"] == 4 for body in inputs["request"])
    assert {len(body["messages"][0]["content"].split()) for body in inputs["request"]} == {10}
    assert 10_000_000 <= inputs["think_ns"].min() < inputs["think_ns"].max() <= 500_000_000


def test_the_salt_is_in_the_first_words_of_the_user_alone(tmp_path: Path) -> None:
    """Later turns begin with them anyway, and what the system says to all is to be found in a cache."""
    shared = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]}
    said = [("human", "b"), ("gpt", "x"), ("human", "c")]
    path = talks(tmp_path, shared, {"conversations": [{"from": role, "value": text} for role, text in said]})
    inputs = rows(tmp_path, conversations=path, salt=True)
    first, second, third = (body["messages"] for body in inputs["request"])
    assert [message["role"] for message in first] == ["system", "user"] and first[0]["content"] == "s"
    salt, word = first[1]["content"].split()
    assert word == "a" and second[0]["content"] == f"{salt} b"
    assert third == [{"role": "user", "content": "c"}]
    assert inputs["conversation"].tolist() == [0, 1, 1] and inputs["think_ns"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: no JSON"),
        ("[1]", "line 2: no JSON object with a list `messages`"),
        ({"messages": "hello"}, "line 2: no JSON object with a list `messages`"),
        ({"messages": []}, "line 2: no turn of a user"),
        ({"messages": [{"role": "system", "content": "x"}]}, "line 2: no turn of a user"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "line 2: no turn of a user"),
        ({"messages": [{"role": "user", "content": " "}]}, "line 2, message 1: no text of the user"),
        ({"messages": [{"role": "user"}]}, "line 2, message 1: no text of the user"),
        ({"messages": [{"role": "user", "content": 3}]}, "line 2, message 1: no text of the user"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "line 2, message 1: its role is 'tool'"),
        ({"messages": ["x"]}, "line 2, message 1: its role is None"),
        ({"messages": [{"role": "user", "content": "x"}] * 1001}, "line 2: 1,001 turns"),
    ],
)
def test_what_is_no_conversation_is_told_by_its_line(tmp_path: Path, line: Any, words: str) -> None:
    """Before anything is sent; with the line of the file."""
    path = talks(tmp_path, {"messages": [{"role": "user", "content": "fine"}]}, line)
    with pytest.raises(InputError, match=words):
        read_conversations(path, "--conversations")


def test_a_file_without_any_is_told(tmp_path: Path) -> None:
    """As is one that is not there."""
    with pytest.raises(InputError, match="has no conversation"):
        read_conversations(talks(tmp_path, "", " "), "requests.path")
    with pytest.raises(InputError, match="requests.path: .* can't be read"):
        read_conversations(tmp_path / "none", "requests.path")
    with pytest.raises(InputError, match="--conversations: /dev/zero can't be read: it is no plain file"):
        read_conversations(Path("/dev/zero"), "--conversations")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "conversations"}, "path is needed"),
        ({"kind": "prompts", "path": "c.jsonl"}, "path is needed"),
        (
            {"kind": "conversations", "path": "c.jsonl", "turns": {"kind": "fixed", "value": 2}},
            "turns goes with kind: prompts only",
        ),
        ({"kind": "prompts", "think_time_ms": {"kind": "fixed", "value": 2}}, "give turns as well"),
        (
            {"kind": "random", "turns": {"kind": "fixed", "value": 2}},
            "turns goes with kind: prompts only",
        ),
    ],
)
def test_what_goes_with_which_kind(fields: dict[str, Any], words: str) -> None:
    """What a file says can't be drawn as well, and a pause is between turns."""
    with pytest.raises(ValueError, match=words):
        RequestsSpec.model_validate(fields)
