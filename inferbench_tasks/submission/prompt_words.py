"""What a language model is asked, and how large free inputs are, in words that are equal for equal ones: both are part
of the load."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.submission.schema import PROMPT_FIELDS, PROMPTED, RequestsSpec

#: What prompts have unless a submission says another, see ``RequestsSpec``.
_USUAL = {"input_tokens": "200", "output_tokens": "64"}


def prompt_words(requests: RequestsSpec) -> str | None:
    """``input_tokens lognormal mean 200 cv 0.8, output_tokens 32``; None of requests that are no prompts.

    A prompt of 16 tokens has its first token before one of 4,000 has: no server is better for it.
    """
    fields = PROMPTED.get(requests.kind)
    if fields is None:
        return None
    given = requests.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    told = {name: _word(given[name]) for name in PROMPT_FIELDS if name in given and given[name] is not True}
    usual = {name: text for name, text in _USUAL.items() if name in fields}
    kind = [] if requests.kind == "prompts" else [f"{requests.kind} {requests.path}"]
    return ", ".join([*kind, *(f"{name} {text}".strip() for name, text in {**usual, **told}.items())])


def size_words(requests: RequestsSpec) -> str | None:
    """``ids.1 mask.1 512``; None where no sizes are given. A text of 16 tokens is answered before one of 512 is."""
    each = [one.model_dump(mode="json", exclude_none=True) for one in requests.sizes or ()]
    return (
        " and ".join(sorted(f"{' '.join(sorted(one['axes']))} {_word(one['size'])}" for one in each)) or None
    )


def _word(value: Any) -> str:
    if not isinstance(value, dict):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if value.get("kind") == "fixed":
        return _word(value["value"])
    return " ".join(_word(v) if name == "kind" else f"{name} {_word(v)}" for name, v in value.items())
