"""What a chat template puts around messages, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.formats.gguf_template import template_tokens
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer
from tests.gguf_files import fields

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + ' ' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>the' }}{% endif %}"
)


def around(roles: tuple[str, ...], **more: Any) -> int | None:
    named = fields(**more)
    return template_tokens(named, Tokenizer(named), roles)


@pytest.mark.parametrize(
    ("roles", "tokens"),
    [
        # <|im_start|> u s e r, the blank before the text, <|im_end|>; then <|im_start|> t he
        (("user",), 7 + 3),
        # a s s i s t a n t is nine letters
        (("user", "assistant", "user"), 7 + 12 + 7 + 3),
    ],
)
def test_tokens_by_hand(roles: tuple[str, ...], tokens: int) -> None:
    """The messages' own texts are left out, and the token that begins every prompt is counted where there is one."""
    chatml = {"tokenizer.chat_template": CHATML}
    assert around(roles, **chatml) == tokens
    assert around(roles, **chatml, **{"tokenizer.ggml.add_bos_token": 1}) == tokens  # a number, no truth


@pytest.mark.parametrize(
    "template",
    [
        None,
        "{{ messages[0].nothing.at_all }}",
        "{% for",
        "{{ raise_exception('only assistants') }}",
        "{{ ''.__class__.__mro__ }}{{ messages.__class__.__init__.__globals__['os'].system('true') }}",
        "{{ messages.append(1) }}",
        "x" * 100_001,
    ],
)
def test_a_template_that_is_none_says_nothing(template: str | None) -> None:
    """One that is missing, damaged, refuses the messages, or wants out of its sandbox."""
    assert around(("user",), **{"tokenizer.chat_template": template}) is None
