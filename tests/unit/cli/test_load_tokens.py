"""The options of ``load run`` that are of streamed tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.cli.load_tokens import token_options
from inferbench_tasks.errors import InputError

NONE: dict[str, Any] = {
    "api": None, "api_key_env": None, "input_tokens": None, "output_tokens": None, "prompts": None, "salt": True,
    "ignore_eos": False, "extra_body": None, "each": {"ttft_ms": None, "tpot_ms": None, "latency_ms": None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"api": "chat"}, "--api"),
        ({"salt": False}, "--no-salt"),
        ({"ignore_eos": True}, "--ignore-eos"),
        ({"api_key_env": "KEY"}, "--api-key-env"),
        ({"each": {"ttft_ms": 5.0}}, "--ttft-ms"),
        ({"tokenizer": Path("t.json")}, "--tokenizer"),
    ],
)
def test_an_option_of_streams_needs_their_protocol(given: dict[str, Any], option: str) -> None:
    """With another protocol it would silently mean nothing."""
    for protocol in ("http", None):
        with pytest.raises(InputError, match=f"{option} is of streamed tokens"):
            token_options(protocol, **{**NONE, **given})
    assert token_options("openai", **{**NONE, **given}) is not None


def test_another_protocol_without_them_has_none() -> None:
    """And with the protocol the lengths have defaults; an endpoint that there is not is refused."""
    assert token_options("http", **NONE) is None
    options = token_options("openai", **NONE)
    assert options is not None
    assert options.output_tokens == {"kind": "fixed", "value": 64} and options.each.bounds() == {}
    with pytest.raises(InputError, match="known: chat, completions"):
        token_options("openai", **{**NONE, "api": "responses"})
