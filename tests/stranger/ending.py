"""How an attempt ended: short words, the same every time."""

from __future__ import annotations

from collections.abc import Callable

#: ``what`` was tried, ``where``, its ``ending``; an ``answer`` where there was one.
Ending = dict[str, str]
#: Of what should not have worked.
DONE = "DONE"
TIMEOUT_S = 20


def ending_of(what: str, where: str, act: Callable[[], object]) -> Ending:
    """The error of the operating system that ended it, by name."""
    try:
        answer = act()
    except OSError as error:
        return {"what": what, "where": where, "ending": type(error).__name__}
    return {"what": what, "where": where, "ending": DONE, "answer": str(answer)[:300]}
