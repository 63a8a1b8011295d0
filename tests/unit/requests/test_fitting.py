"""Files of requests against a server's slot: counted by hand, with the place of the first that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.fitting import require_conversations_fit, require_trace_fits
from inferbench_tasks.requests.token_trace import TokenTrace
from inferbench_tasks.submission.context import Slot

SLOT = Slot(100, default=False)


def words(texts: object) -> list[int]:
    """A token a word."""
    return [len(text.split()) for text in texts]  # type: ignore[attr-defined]


def test_a_trace_s_longest_request_fits_or_is_named() -> None:
    """Prompt, answer and template together, up to the last token; the first of those that don't has its row."""
    trace = TokenTrace(np.array([10, 60, 90]), np.array([10, 30, 11]), None)
    require_trace_fits(trace.first(2), "t.csv", SLOT, 10)
    with pytest.raises(
        InputError, match=r"t\.csv, row 3: 90 input and 11 output tokens are 101 tokens, more than a"
    ):
        require_trace_fits(trace, "t.csv", SLOT, 0)
    with pytest.raises(
        InputError, match=r"request 2: 60 input .* 11 of the model's chat .* are 101 .* 2 requests that"
    ):
        require_trace_fits(trace, "t.jsonl", Slot(100, default=True), 11)


def test_a_conversation_s_last_turn_carries_all_of_it(tmp_path: Path) -> None:
    """2 + 3 words of the user and of the system's, two answers of 20, the template of u, a, u; by its line."""
    file = tmp_path / "talks.jsonl"
    talk = [("user", "a b"), ("assistant", "left out"), ("user", "c d e")]
    long = [("system", "s s"), *talk]
    lines = [[{"role": role, "content": text} for role, text in said] for said in (talk, long)]
    file.write_text("\n\n".join(json.dumps({"messages": line}) for line in lines))

    def check(tokens: int) -> None:
        slot = Slot(tokens, default=False)
        require_conversations_fit(file, "requests.path", slot, 20, words, lambda roles: 10 * len(roles))

    check(2 + 2 + 3 + 2 * 20 + 4 * 10)
    with pytest.raises(
        InputError, match=r"talks\.jsonl, line 3: 7 tokens of the user and 2 answers of 20 and 40 of"
    ):
        check(86)
    with pytest.raises(
        InputError, match=r"line 1: 5 tokens of the user and 2 .* are 75 tokens, more than a slot's 74"
    ):
        check(74)
