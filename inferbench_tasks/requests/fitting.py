"""Whether what requests will carry fits into a server's slot, by the files that they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.conversations import Turn, read_numbered
from inferbench_tasks.requests.token_trace import TokenTrace, at_row
from inferbench_tasks.submission.context import Slot

#: Tokens that a chat template puts around messages of these roles; 0 where nobody knows.
Around = Callable[[Sequence[str]], int]
Count = Callable[[Sequence[str]], list[int]]
_FIELD = "requests.path"


def require_trace_fits(trace: TokenTrace, path: str, slot: Slot, template_tokens: int) -> None:
    """InputError for the first request whose prompt and answer don't fit, with its place in the file."""
    tokens = trace.input_tokens + trace.output_tokens + template_tokens
    beyond = np.flatnonzero(tokens > slot.tokens)
    if beyond.size:
        row = int(beyond[0])
        parts = [f"{trace.input_tokens[row]:,} input", f"{trace.output_tokens[row]:,} output tokens"]
        if template_tokens:
            parts.append(f"{template_tokens:,} of the model's chat template")
        more = f"; {beyond.size:,} requests that would be sent are too long" if beyond.size > 1 else ""
        message = slot.refusal(" and ".join(parts), int(tokens[row]))
        raise InputError(f"{path}, {at_row(path, row)}: {message}{more}", field=_FIELD)


def require_conversations_fit(
    path: Path, where: str, slot: Slot, output_tokens: int, count: Count, around: Around
) -> None:
    """InputError for the first conversation whose last turn does not fit, with its line.

    It carries all that its user said, and answers of ``output_tokens`` each; the salt, a word of a few tokens, is not
    counted.
    """
    numbered = read_numbered(path, where)
    said = [message["content"] for _, turns in numbered for turn in turns for message in turn]
    counts = iter(count(said))
    templates: dict[tuple[str, ...], int] = {}
    for line, turns in numbered:
        texts = sum(next(counts) for turn in turns for _ in turn)
        roles = _roles(turns)
        if roles not in templates:
            templates[roles] = around(roles)
        tokens = texts + len(turns) * output_tokens + templates[roles]
        if tokens > slot.tokens:
            parts = [f"{texts:,} tokens of the user", f"{len(turns):,} answers of {output_tokens:,}"]
            if templates[roles]:
                parts.append(f"{templates[roles]:,} of the model's chat template")
            message = slot.refusal(" and ".join(parts), tokens)
            raise InputError(f"{path.name}, line {line}: {message}", field=_FIELD)


def _roles(turns: list[Turn]) -> tuple[str, ...]:
    """Of all messages of the last turn's request: what was said, and an answer behind each turn but the last."""
    roles: list[str] = []
    for number, turn in enumerate(turns):
        if number:
            roles.append("assistant")
        roles += [message["role"] for message in turn]
    return tuple(roles)
