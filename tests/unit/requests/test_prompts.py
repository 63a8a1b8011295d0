"""Requests to language models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.requests.prompts import PromptSet, write_prompts
from inferbench_tasks.requests.prose import TOKENS_PER_WORD
from inferbench_tasks.submission.token_lengths import Fixed, Uniform


def bodies(tmp_path: Path, count: int = 20, **options: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """The documents of a set and what each asks for."""
    fields: dict[str, Any] = {
        "input_tokens": Fixed(kind="fixed", value=130),
        "output_tokens": Uniform(kind="uniform", min=1, max=9),
        **options,
    }
    wanted = PromptSet(model="m", api=fields.pop("api", "chat"), **fields)
    write_prompts(wanted, count, tmp_path / "r.npz", seed=5)
    inputs = read_inputs(str(tmp_path / "r.npz"))
    return [json.loads(body) for body in inputs["request"]], inputs["max_tokens"].tolist()


def test_each_asks_for_a_stream_its_usage_and_its_own_length(tmp_path: Path) -> None:
    """Without usage nobody knows how many tokens came."""
    documents, asked = bodies(tmp_path)
    assert [document["max_tokens"] for document in documents] == asked
    assert all(
        document["stream"] and document["stream_options"] == {"include_usage": True} for document in documents
    )
    texts = [document["messages"][0]["content"] for document in documents]
    assert {len(text.split()) for text in texts} == {round(130 / TOKENS_PER_WORD)}
    assert len(set(texts)) == len(texts)


def test_a_salt_is_of_one_load_and_the_rest_of_the_seed(tmp_path: Path) -> None:
    """So no run finds another's prefix in a cache, and without it the same seed sends the same bytes."""
    first, again = (bodies(tmp_path, api="completions")[0] for _ in range(2))
    salts = {document["prompt"].split()[0] for document in first}
    assert len(salts) == 1 and not salts & {document["prompt"].split()[0] for document in again}
    assert [d["prompt"].split()[1:] for d in first] == [d["prompt"].split()[1:] for d in again]
    assert bodies(tmp_path, salt=False) == bodies(tmp_path, salt=False)


def test_more_fields_are_added_and_left_out(tmp_path: Path) -> None:
    """Null leaves a field out; what the load itself needs can't be changed."""
    documents, _ = bodies(tmp_path, more={"temperature": 0, "max_tokens": None})
    assert documents[0]["temperature"] == 0 and "max_tokens" not in documents[0]
    renamed = {"max_tokens": None, "max_completion_tokens": 300}
    documents, asked = bodies(tmp_path, more=renamed)
    assert (documents[0].get("max_tokens"), documents[0]["max_completion_tokens"]) == (None, 300)
    assert set(asked) == {300}  # by it a stream with too many tokens is known
    assert set(bodies(tmp_path, more={"max_tokens": None})[1]) == {-1}
    with pytest.raises(InputError, match="'stream'"):
        bodies(tmp_path, more={"stream": False})


def test_the_users_own_prompts_are_all_sent(tmp_path: Path) -> None:
    """In their order, and again from the first where more requests are needed."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "one"}\n\n{"prompt": "two", "id": 3}\n')
    documents, _ = bodies(tmp_path, count=3, file=tmp_path / "p.jsonl", salt=False, api="completions")
    assert [document["prompt"] for document in documents] == ["one", "two", "one"]


@pytest.mark.parametrize("line", ["nothing", "[1]", '{"text": "x"}', '{"prompt": " "}', '{"prompt": 3}'])
def test_a_line_without_a_prompt_is_told(tmp_path: Path, line: str) -> None:
    """By its number."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "one"}\n' + line)
    with pytest.raises(InputError, match="line 2"):
        bodies(tmp_path, file=tmp_path / "p.jsonl")
