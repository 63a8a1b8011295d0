"""A document in PerfDB that can't be read as it stands: written by another version, by hand, or damaged.

It is skipped, so that no other suffers by it, and told: once in the log, and where people look.
"""

from __future__ import annotations

import logging

from pydantic import ValidationError

from inferbench_tasks.problem import field_problems

log = logging.getLogger(__name__)

#: What was told already is not told again at the next look, a moment later. Of more, all are told anew.
_MOST_TOLD = 1000
_told: set[str] = set()


def why(error: ValidationError) -> str:
    """What of it can't be read, field by field, without the values."""
    return "; ".join(field_problems(error))[:300]


def skipped(what: str, reason: str) -> str:
    """The sentence that says so. ``what``: whose document, and in which collection."""
    text = f"{what} in PerfDB can't be read ({reason}), and is skipped"
    if text not in _told:
        if len(_told) >= _MOST_TOLD:
            _told.clear()
        _told.add(text)
        log.warning("%s", text)
    return text
