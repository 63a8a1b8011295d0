"""Counting the tokens of many texts with the library ``tokenizers``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Texts that are in memory as tokens at the same time.
_BATCH = 512


def counted(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    """How many tokens each text has; none of those that a template or the end of a text adds."""
    counts: list[int] = []
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        counts += [len(one.ids) for one in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]
    return counts
