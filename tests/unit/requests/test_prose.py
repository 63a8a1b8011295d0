"""Prompts of exactly so many tokens, by a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.requests.prompts import PromptSet, TraceFile, write_prompts
from inferbench_tasks.requests.prose import Counted
from inferbench_tasks.submission.token_lengths import Fixed, Uniform
from tests.gguf_files import fields

TOKENIZER = Tokenizer(fields())
LENGTHS = Uniform(kind="uniform", min=20, max=400)


def drawn(folder: Path, count: int = 50, **more: Any) -> tuple[list[str], Arrays]:
    """The texts of a set, and its arrays."""
    wanted = PromptSet(
        **{"model": "m", "api": "completions", "input_tokens": LENGTHS, "output_tokens": LENGTHS, **more},
        count=TOKENIZER.count,
    )
    write_prompts(wanted, count, folder / "r.npz", seed=5)
    inputs = read_inputs(str(folder / "r.npz"))
    documents = [json.loads(body) for body in inputs["request"]]
    return [d["prompt"] if "prompt" in d else d["messages"][0]["content"] for d in documents], inputs


@pytest.mark.parametrize("salt", [True, False])
@pytest.mark.parametrize("prefix", [None, (3, 25)])
def test_a_prompt_has_the_tokens_that_were_drawn(
    tmp_path: Path, salt: bool, prefix: tuple[int, int] | None
) -> None:
    """The salt among them, a shared prefix besides; and no two are the same."""
    texts, inputs = drawn(tmp_path, salt=salt, prefix=prefix)
    assert TOKENIZER.count(texts) == inputs["drawn_tokens"].tolist() == inputs["text_tokens"].tolist()
    more = prefix[1] if prefix else 0
    assert 20 + more <= inputs["drawn_tokens"].min() < inputs["drawn_tokens"].max() <= 400 + more
    assert len(set(texts)) == 50


def test_what_is_shared_has_its_own_tokens_and_is_the_same_in_each_run(tmp_path: Path) -> None:
    """Cut behind 25 tokens, three texts are left; the next run has them too."""
    first, second = ({_begin(text, 25) for text in drawn(tmp_path, prefix=(3, 25))[0]} for _ in range(2))
    assert len(first) == 3 and first == second
    assert {text[:2] for text in first} == {"1.", "2.", "3."}


def _begin(text: str, tokens: int) -> str:
    """The words in front that have so many tokens together."""
    words = text.split(" ")
    ends = [" ".join(words[:n]) for n in range(len(words) + 1)]
    return max((end for end in ends if TOKENIZER.count([end]) == [tokens]), key=len)


def test_a_salt_with_a_word_is_the_least(tmp_path: Path) -> None:
    """Nine tokens at most, where two were asked for: the drawn length says so."""
    texts, inputs = drawn(tmp_path, 5, input_tokens=Fixed(kind="fixed", value=2))
    assert all(len(text.split()) == 2 for text in texts)
    assert set(inputs["drawn_tokens"]) == {2} and 3 <= inputs["text_tokens"].min() <= 9


def test_a_trace_s_prompts_have_its_tokens_and_share_whole_blocks(tmp_path: Path) -> None:
    """Two blocks of 40 tokens are the same in both, of 100 and 95 tokens; the salt takes its part of the last."""
    rows = [
        {"timestamp": 0, "input_length": 100, "output_length": 1, "hash_ids": [1, 2, 3]},
        {"timestamp": 1, "input_length": 95, "output_length": 1, "hash_ids": [1, 2, 4]},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for salt in (True, False):
        trace = TraceFile(tmp_path, "t.jsonl", block_tokens=40)
        (first, second), inputs = drawn(tmp_path, trace=trace, salt=salt)
        assert inputs["text_tokens"].tolist() == [100, 95] == inputs["drawn_tokens"].tolist()
        front = first[: first.index(" 3.")] + " "
        assert second.startswith(front) and second[len(front) :].startswith("4.")
        lead = (
            TOKENIZER.count([first.split()[0]])[0] if salt else -1
        )  # without one the first blank is missing
        assert TOKENIZER.count([front[:-1]]) == [80 + lead]


def test_turns_are_counted_one_by_one(tmp_path: Path) -> None:
    """Each turn's own text; what a template puts between them is another's."""
    two = Fixed(kind="fixed", value=2)
    texts, inputs = drawn(tmp_path, 10, api="chat", turns=two)
    assert len(texts) == 20 and inputs["text_tokens"].tolist() == TOKENIZER.count(texts)
    assert set(inputs["drawn_tokens"]) == {-1}


def test_texts_longer_than_all_words_are_filled() -> None:
    """More tokens than two rounds of the words have, from the last one on."""
    prose = Counted(TOKENIZER.count)
    (around,) = TOKENIZER.count([" ".join(prose.words)])
    assert TOKENIZER.count([prose.take(len(prose.words) - 1, 3 * around)]) == [3 * around]
