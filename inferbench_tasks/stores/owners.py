"""Which PerfDBs use a store: each leaves its mark there, ``owners/<its id>``, before it stores anything.

What one PerfDB needs no more another's results may refer to, and no ledger knows of both: where two have left marks
nothing is collected. One of an earlier version leaves its mark with its next put: so that it has the time to, nothing
is collected either before this PerfDB's own mark is older than the grace time.
"""

from __future__ import annotations

import socket

from inferbench_tasks.errors import StorageError
from inferbench_tasks.stores.base import ARTIFACTS, OWNERS, Missing, Store, name_in
from inferbench_tasks.stores.ledger import Ledger

_SHOWN = 3


def mark_of(ledger: Ledger) -> str:
    """The key of a PerfDB's mark."""
    return f"{OWNERS}/{ledger.owner()}"


def claim(store: Store, ledger: Ledger) -> None:
    """Leave this PerfDB's mark, if it is not there; its content is the host that left it."""
    if not store.of_one_perfdb and store.size(key := mark_of(ledger)) is None:
        store.put(key, socket.gethostname().encode())


def require_alone(store: Store, ledger: Ledger) -> None:
    """StorageError where another PerfDB has left its mark."""
    if store.of_one_perfdb:
        return
    own = mark_of(ledger)
    others = [item.key for item in store.owners() if item.key != own]
    if others:
        shown = ", ".join(f"{name_in(key)[:12]} (from {_host(store, key)})" for key in others[:_SHOWN])
        more = ", ..." if len(others) > _SHOWN else ""
        raise StorageError(
            f"{store.url} is not this PerfDB's ({name_in(own)[:12]}) alone: {shown}{more} stored there too, and what "
            "its results refer to is not known here, so that nothing is collected. Give each PerfDB a folder of its "
            f"own, such as {ARTIFACTS}={store.url.rstrip('/')}/NAME. Of a PerfDB that is gone for good remove the "
            f"object {store.url.rstrip('/')}/{others[0]}."
        )


def claimed_s(store: Store, ledger: Ledger) -> float | None:
    """When this PerfDB left its mark, by the store's clock; None where it has not."""
    own = mark_of(ledger)
    return next((item.stored_s for item in store.owners() if item.key == own), None)


def _host(store: Store, key: str) -> str:
    try:
        return store.read(key, 0, 100).decode(errors="replace")
    except Missing:
        return "a host that has just taken it back"
