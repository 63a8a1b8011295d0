"""Conversations with language models: what the user says turn by turn, made up or from a file.

What a model answers is no part of it: each turn is sent behind the answers that really came (``loadgen.sessions``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from inferbench_tasks.artifacts.plain_file import read_plain
from inferbench_tasks.errors import InputError

#: A turn: the messages that are new in it; the last one is the user's.
Turn = list[dict[str, str]]
#: ShareGPT's names of who speaks, and OpenAI's.
_ROLES = {"human": "user", "gpt": "assistant"}
_KNOWN = ("system", "developer", "user", "assistant")
_MOST_CONVERSATIONS = 100_000
_MOST_BYTES = 256 << 20
#: Turns of one conversation.
MOST_TURNS = 1000


def read_conversations(path: Path, where: str) -> list[list[Turn]]:
    """As ``read_numbered``, without the lines."""
    return [turns for _, turns in read_numbered(path, where)]


def read_numbered(path: Path, where: str) -> list[tuple[int, list[Turn]]]:
    """Each conversation's line in the file, and its turns.

    JSON Lines, each with ``messages`` (``role``, ``content``) or ShareGPT's ``conversations`` (``from``, ``value``).
    The assistant's words in it are left out: those that really come take their place. InputError, with ``where`` it
    was asked for and the line, for what is no conversation, has no text, or no turn of a user.
    """
    try:
        lines = read_plain(path, _MOST_BYTES).splitlines()
    except OSError as error:
        raise InputError(f"{where}: {path} can't be read: {error}") from error
    conversations = [
        (number, _turns(line, f"{where}: {path.name}, line {number}"))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not conversations:
        raise InputError(f"{where}: {path.name} has no conversation")
    if len(conversations) > _MOST_CONVERSATIONS:
        raise InputError(f"{where}: {path.name} has more than {_MOST_CONVERSATIONS:,} conversations")
    return conversations


def _turns(line: bytes, where: str) -> list[Turn]:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{where}: no JSON: {error}") from error
    fields = document if isinstance(document, dict) else {}
    messages = fields.get("messages", fields.get("conversations"))
    if not isinstance(messages, list):
        raise InputError(f"{where}: no JSON object with a list `messages`")
    turns: list[Turn] = []
    new: Turn = []
    for number, message in enumerate(messages, 1):
        role, text = _said(message, f"{where}, message {number}")
        if role == "assistant":
            continue
        new.append({"role": role, "content": text})
        if role == "user":
            turns.append(new)
            new = []
    if not turns:
        raise InputError(f"{where}: no turn of a user (role: user)")
    if len(turns) > MOST_TURNS:
        raise InputError(f"{where}: {len(turns):,} turns; at most {MOST_TURNS:,} are possible")
    return turns


def _said(message: Any, where: str) -> tuple[str, str]:
    fields = message if isinstance(message, dict) else {}
    role = fields.get("role", fields.get("from"))
    role = _ROLES.get(role, role) if isinstance(role, str) else role
    if role not in _KNOWN:
        raise InputError(f"{where}: its role is {role!r}; known: {', '.join(_KNOWN)}")
    text = fields.get("content", fields.get("value"))
    if not isinstance(text, str) or (not text.strip() and role != "assistant"):
        raise InputError(f"{where}: no text of the {role}")
    return role, text


def salted(turns: list[Turn], salt: str) -> list[Turn]:
    """The same with the salt before the first words of the user, behind what the system says to all."""
    if not salt:
        return turns
    first = [*turns[0][:-1], {**turns[0][-1], "content": f"{salt} {turns[0][-1]['content']}"}]
    return [first, *turns[1:]]


def made_up(first: Iterable[str], later: Iterable[str], turns: NDArray[np.int64]) -> list[list[Turn]]:
    """Conversations of so many turns each, of texts as they come."""
    more = iter(later)
    return [
        [
            [{"role": "user", "content": text}],
            *([{"role": "user", "content": next(more)}] for _ in range(count - 1)),
        ]
        for text, count in zip(first, turns.tolist(), strict=True)
    ]
