"""Which of the times of one brick is used, where several sessions and hosts timed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.contracts.handles import Handle


class Wanted(Handle):
    """What a time has to be to be used again: taken like ``method`` at least, since ``oldest`` (None: ever)."""

    method: Method
    oldest: datetime | None = None

    def allows(self, document: Mapping[str, Any]) -> bool:
        """Whether a document of ``brick_results`` is such a time."""
        if self.oldest is not None and aware(document["measured_at"]) < self.oldest:
            return False
        return _covers(tuple(sorted(document["method"].items())), self.method)


@lru_cache(maxsize=1_000)
def _covers(asked: tuple[tuple[str, Any], ...], wanted: Method) -> bool:
    return Method(**dict(asked)).covers(wanted)


def chosen(
    found: Iterable[Mapping[str, Any]],
    host_of: Callable[[Mapping[str, Any]], str],
    own: str | None,
    wanted: Wanted | None = None,
) -> dict[str, Mapping[str, Any]]:
    """Identity -> the document that is used, of those that were ``found`` (the oldest first).

    Each host's newest counts. Of these one that may be used again goes before one that may not, whoever's they are: who
    does not measure any more would else have all measured again, and be given its own old time all the same. Then the
    ``own`` host's goes before others' (None: nobody's does), then the newest. Without ``wanted`` all may be used.
    """
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in found:
        place = one["identity"], host_of(one)
        newest.pop(place, None)  # so that they stand by their moments, not by those of the first of each host
        newest[place] = one
    best: dict[str, tuple[tuple[bool, bool], Mapping[str, Any]]] = {}
    for (identity, host), one in newest.items():
        rank = wanted is None or wanted.allows(one), own is not None and host == own
        if identity not in best or rank >= best[identity][0]:
            best[identity] = rank, one
    return {identity: one for identity, (_, one) in best.items()}


def aware(at: datetime) -> datetime:
    """As UTC, which moments of documents are that say no zone."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
