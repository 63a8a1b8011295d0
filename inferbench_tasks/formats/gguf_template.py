"""The tokens that a GGUF model's chat template puts around messages, by rendering it as servers do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NoReturn

from inferbench_tasks.formats.gguf_tokenizer import Tokenizer

log = logging.getLogger(__name__)

#: Longer ones are no template of a chat, and cost time to read.
_MOST_CHARACTERS = 100_000
#: What stands for a text: short, and not empty, which some templates leave out.
_TEXT = "x"


def template_tokens(fields: dict[str, Any], tokenizer: Tokenizer, roles: Sequence[str]) -> int | None:
    """Around messages of these roles and before the next answer; None where the file's template can't be rendered.

    The template is the file's, so it is foreign code: jinja2's sandbox keeps it from everything but its arguments.
    """
    template = fields.get("tokenizer.chat_template")
    if not isinstance(template, str) or len(template) > _MOST_CHARACTERS:
        return None
    messages = [{"role": role, "content": _TEXT} for role in roles]
    try:
        text = _rendered(template, messages, fields)
    except Exception as error:  # noqa: BLE001 - a foreign template may raise whatever it likes
        log.info("the model's chat template can't be rendered: %s: %s", type(error).__name__, error)
        return None
    whole, each = tokenizer.count([text, _TEXT])
    begin = int(fields.get("tokenizer.ggml.add_bos_token") is True)
    return max(0, whole - each * len(messages) + begin)


def _rendered(template: str, messages: list[dict[str, str]], fields: dict[str, Any]) -> str:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    return environment.from_string(template).render(
        messages=messages,
        add_generation_prompt=True,
        bos_token=_token(fields, "bos"),
        eos_token=_token(fields, "eos"),
        raise_exception=_refuse,
    )


def _token(fields: dict[str, Any], name: str) -> str:
    number, tokens = fields.get(f"tokenizer.ggml.{name}_token_id"), fields.get("tokenizer.ggml.tokens")
    known = isinstance(tokens, list) and isinstance(number, int) and 0 <= number < len(tokens)
    return str(tokens[number]) if known else ""  # type: ignore[index]


def _refuse(message: object) -> NoReturn:
    raise ValueError(str(message))
