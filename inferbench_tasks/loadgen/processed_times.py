"""When the client's own processors worked for each traced request: kept by a sender, and read after its load.

A request's record has how long they took; where a trace puts them on a timeline it has to be told when they did. They
are kept of requests that carry a ``traceparent`` alone, so that a load which is not traced pays nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.errors import LoadError


@dataclass(frozen=True)
class Worked:
    """Between two moments of CLOCK_MONOTONIC, ns. ``worked_ns``: kind of processor -> how long it worked of it; what is
    left went into writing the request, or into reading and checking the answer."""

    started_ns: int
    ended_ns: int
    worked_ns: Mapping[str, int]


@dataclass(frozen=True)
class Processed:
    """What the client did to one request before it left, and to its answer, which was there at ``answered_ns``: those
    that come together are processed one by one, on the sender's loop."""

    before: Worked
    after: Worked
    answered_ns: int


class ProcessedTimes:
    """Those of one sender's requests, until they are written. ``before``, ``after``: the kinds of its processors."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        self._before, self._after = tuple(dict.fromkeys(before)), tuple(dict.fromkeys(after))
        self._rows = array("q")

    def add(self, request_id: int, processed: Processed) -> None:
        """Keep those of a request that ended well."""
        self._rows.extend((request_id, processed.answered_ns))
        before, after = processed.before, processed.after
        for kinds, each in ((self._before, before), (self._after, after)):
            self._rows.extend((each.started_ns, each.ended_ns))
            self._rows.extend(each.worked_ns.get(kind, 0) for kind in kinds)

    def write(self, path: Path) -> None:
        """All of them as one ``.npz``: a row for each request, and whose its last columns are."""
        width = 6 + len(self._before) + len(self._after)
        rows = np.frombuffer(self._rows, np.int64) if self._rows else np.empty(0, np.int64)
        kinds = {"before": np.array(self._before, np.str_), "after": np.array(self._after, np.str_)}
        write_archive(path, {"rows": rows.reshape(-1, width), **kinds})


def read_processed(paths: Iterable[Path]) -> dict[int, Processed]:
    """What the senders of a load kept, by the numbers of requests; LoadError where a file can't be read."""
    found: dict[int, Processed] = {}
    for path in paths:
        try:
            with np.load(path, allow_pickle=False) as archive:
                before, after = archive["before"].tolist(), archive["after"].tolist()
                rows = archive["rows"].tolist()
        except (OSError, ValueError, KeyError) as error:
            raise LoadError(
                f"When the client's processors worked can't be read from {path}: {error}"
            ) from error
        at = 3 + len(before)
        for number, answered_ns, *row in rows:
            found[number] = Processed(
                Worked(row[0], row[1], dict(zip(before, row[2 : at - 1], strict=True))),
                Worked(row[at - 1], row[at], dict(zip(after, row[at + 1 :], strict=True))),
                answered_ns,
            )
    return found
