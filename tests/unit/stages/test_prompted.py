"""What fits into no slot of a server is refused before one is started, with the model's own template and tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.stages.prompted import require_fitting
from inferbench_tasks.submission.schema import JobSpec
from tests.gguf_files import written

#: With the hand-made vocabulary: 3 tokens before a text, 2 behind it and 2 at the end.
TEMPLATE = "{% for m in messages %}{{ '<|im_start|> a' + m['content'] + ' a<|im_end|>' }}{% endfor %}{{ ' the the' }}"


def job(context_tokens: int, **requests: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "fits",
            "model": {"kind": "file", "path": "m.gguf"},
            "convert": {"format": "gguf"},
            "serve": {"backend": "llama_cpp", "context_tokens": context_tokens},
            "requests": requests,
            "load": {"protocol": "openai", "arrivals": {"kind": "constant", "rate_rps": 1}},
        }
    )


@pytest.mark.parametrize(
    ("requests", "tokens", "where", "said"),
    [
        # 40 + 8, and 2 + 2 + 2 around the only message
        (
            {"kind": "prompts", "input_tokens": {"kind": "fixed", "value": 40},
             "output_tokens": {"kind": "fixed", "value": 8}},
            40 + 8 + 6, "requests.input_tokens", "and 6 of the model's chat template are 54 tokens",
        ),
        # two turns: the template is around user, assistant, user
        (
            {"kind": "prompts", "input_tokens": {"kind": "fixed", "value": 40},
             "output_tokens": {"kind": "fixed", "value": 8}, "turns": {"kind": "fixed", "value": 2}},
            2 * 48 + 3 * 4 + 2, "requests.input_tokens", "in each of 2 turns and 14 of the model's chat template",
        ),
        ({"kind": "trace", "path": "t.csv"}, 30 + 9 + 6, "requests.path", r"t\.csv, row 2: 30 input and 9 output"),
        # " the" is one token and "the" two; without output_tokens 64 are asked for
        ({"kind": "conversations", "path": "c.jsonl"}, 3 + 64 + 6, "requests.path", r"c\.jsonl, line 1: 3 tokens of"),
    ],
)  # fmt: skip
def test_what_just_fits_and_one_token_more(
    tmp_path: Path, requests: dict[str, Any], tokens: int, where: str, said: str
) -> None:
    """Counted by hand: prompts, turns with all that was said before, rows of a trace, lines of conversations."""
    model = written(tmp_path, **{"tokenizer.chat_template": TEMPLATE})
    (tmp_path / "t.csv").write_text("ContextTokens,GeneratedTokens\n1,1\n30,9\n")
    (tmp_path / "c.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "the the"}]}))
    require_fitting(job(tokens, **requests), tmp_path, str(model))
    with pytest.raises(InputError, match=said) as refused:
        require_fitting(job(tokens - 1, **requests), tmp_path, str(model))
    assert refused.value.field == where and f"a slot's {tokens - 1} (serve.context_tokens)" in str(
        refused.value
    )


def test_the_backend_s_default_holds_where_nothing_is_said(tmp_path: Path) -> None:
    """llama.cpp's slots have 4,096 tokens; a trace is judged without its model, less the template."""
    (tmp_path / "t.csv").write_text("ContextTokens,GeneratedTokens\n4000,96\n")
    asked = job(16, kind="trace", path="t.csv")
    silent = asked.model_copy(update={"serve": asked.serve.model_copy(update={"context_tokens": None})})
    require_fitting(silent, tmp_path)
    (tmp_path / "t.csv").write_text("ContextTokens,GeneratedTokens\n4000,97\n")
    with pytest.raises(
        InputError, match=r"are 4,097 .* slot's 4,096 \(the backend's default; set serve.context_tok"
    ):
        require_fitting(silent, tmp_path)


def test_rows_that_are_never_sent_need_not_fit(tmp_path: Path) -> None:
    """1.2 x 10 requests/s x (4 + 1) s and 64 more are 124: the 125th may be too long, the 124th not."""
    asked = job(100, kind="trace", path="t.csv")
    arrivals = asked.traffic.arrivals.model_copy(update={"rate_rps": 10.0})
    load = asked.traffic.model_copy(update={"arrivals": arrivals, "duration_s": 4.0, "warmup_s": 1.0})
    asked = asked.model_copy(update={"load": load})
    for short in (124, 123):
        rows = ["ContextTokens,GeneratedTokens", *["1,1"] * short, "99,2"]
        (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
        if short == 124:
            require_fitting(asked, tmp_path)
    with pytest.raises(InputError, match=r"t\.csv, row 124: 99 input and 2 output"):
        require_fitting(asked, tmp_path)
