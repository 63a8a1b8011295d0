"""Under which bounds an answer counted as good: figures of good answers of two objectives are of unlike things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.dotted import value_at

#: What counts only answers within the objective's bounds: a wider bound makes more of them, and no server better.
OF_GOOD_ANSWERS = (
    "goodput_rps", "good_ratio", "good_tokens_per_s", "kept_ttft_ratio", "kept_tpot_ratio", "kept_latency_ratio",
)  # fmt: skip
PATHS = ("goodput_limit_ms", "tokens.each")


def good_within(summary: Mapping[str, Any]) -> str:
    """``good within 20 ms``, ``good within ttft_ms 500, tpot_ms 100``; equal for equal bounds."""
    limit_ms, each = (value_at(summary, path) for path in PATHS)
    if each:
        return f"good within {', '.join(f'{name} {bound:g}' for name, bound in sorted(each.items()))}"
    return f"good within {limit_ms:g} ms" if limit_ms is not None else "good by bounds that are not known"
