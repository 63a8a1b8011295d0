"""The foot of a list's page: the link to the next one, or that pages go no further."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.provider.api.runs import following
from inferbench_tasks.provider.ui.render import query


def leading_on(parameters: Mapping[str, Any], offset: int, limit: int, more: bool) -> dict[str, Any]:
    """``next``: the address of the next page, None without one; ``truncated``: there is more that none reaches."""
    told = following(offset, limit, more)
    further = told["next_offset"]
    return {
        "next": query(**parameters, offset=further) if further else None,
        "truncated": told["truncated"],
    }
