"""That artifacts are being stored, for others to see as long as it lasts: who waits for them, and who collects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.stores.ledger import Ledger

log = logging.getLogger(__name__)

#: A mark is renewed so often, however long one object takes.
BEAT_S = 15.0


@contextmanager
def marked(ledger: Ledger, digests: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Mark what ``digests`` says, at once and then again and again, until the block ends."""
    over, marks = threading.Event(), set[str]()

    def mark() -> None:
        for digest in digests():
            marks.add(digest)
            ledger.begin_put(digest)

    def keep() -> None:
        while not over.wait(BEAT_S):
            try:
                mark()
            except PerfDBError as error:  # who stores it meets the same, and says so
                log.warning("PerfDB can't be told what is being stored: %s", error)

    mark()
    keeper = threading.Thread(target=keep, name="artifact-marks", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        for digest in marks:
            ledger.end_put(digest)
