"""The measured window of a load, as arrays: which records count for what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.contracts.columns import numbers
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.layout import DROPPED, columns_of, spans_of
from inferbench_tasks.loadgen.records import codes, column, is_ok

NS_PER_S = 1_000_000_000
_PIECE = 1 << 18


def taken(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """``values[mask]``; a view, without a copy of millions, where those that are taken follow each other."""
    first, count = int(mask.argmax()) if len(mask) else 0, int(np.count_nonzero(mask))
    return values[first : first + count] if mask[first : first + count].all() else values[mask]


@dataclass(frozen=True)
class Window:
    """The records of a load, ordered by ``intended_ns``, and masks over them.

    A REQUEST belongs to the window if it was meant to leave within [start, end) and is labelled
    "measure". A COMPLETION belongs to it if it happened within (start, end], whatever its request's
    phase: what a saturated server finishes in the window is its work, and what it finishes later is not.
    """

    start_ns: int
    end_ns: int
    request_id: NDArray[np.int64]
    #: The sender that made the record.
    shard: NDArray[np.int64]
    intended_ns: NDArray[np.int64]
    #: When the sender began with the request: the send, or the client's own pre-processing before it.
    sent_ns: NDArray[np.int64]
    first_byte_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]
    batch_size: NDArray[np.int64]
    status: NDArray[np.int64]
    status_names: list[str]
    phase: NDArray[np.int64]
    phase_names: list[str]
    #: The server's own times by the part they are of (``protocols.spans``), empty where it told none.
    spans: dict[str, NDArray[np.int64]]
    #: The client's own times likewise, empty where it did nothing while the load ran.
    client_spans: dict[str, NDArray[np.int64]]
    #: Answered as it should be, at any time.
    ok: NDArray[np.bool_]
    #: The requests of the window.
    measured: NDArray[np.bool_]
    #: The records whose label and whose intended time disagree about the window.
    mislabelled: int
    #: What each request waits for a connection of which the user asked for so few, with a client that takes no time
    #: (``connection_waits``); None where nobody did, so that whatever it waits before its send is the client's doing.
    connection_wait_ns: NDArray[np.int64] | None = None
    #: For how long none was free to it, as recorded: that wait and what the client's delays at those before added.
    connection_busy_ns: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, table: pa.Table, start_ns: int, end_ns: int) -> Window:
        """Order the records and mark what lies in the window; InputError for an empty window."""
        if end_ns <= start_ns:
            raise InputError(
                f"The measured window is empty: it starts at {start_ns} ns and ends at {end_ns} ns"
            )
        intended = column(table, "intended_ns")
        if len(intended) and np.any(intended[1:] < intended[:-1]):
            table = table.take(numbers(np.argsort(intended, kind="stable")))
            intended = column(table, "intended_ns")
        status, status_names = codes(table, "status")
        phase, phase_names = codes(table, "phase")
        labelled = np.array([name == "measure" for name in phase_names] or [False])
        labelled_measure = labelled[phase] if len(phase) else np.zeros(0, np.bool_)
        own = _spans(table, "client")
        own = own if any((values >= 0).any() for values in own.values()) else {}
        sent_ns = column(table, "sent_ns")
        if own:
            sent_ns = np.where(sent_ns >= 0, sent_ns - own["preprocess"].clip(0), sent_ns)
        inside = (intended >= start_ns) & (intended < end_ns)
        return cls(
            start_ns=start_ns,
            end_ns=end_ns,
            request_id=column(table, "request_id"),
            shard=column(table, "shard"),
            intended_ns=intended,
            sent_ns=sent_ns,
            first_byte_ns=column(table, "first_byte_ns"),
            done_ns=column(table, "done_ns"),
            batch_size=column(table, "batch_size"),
            status=status,
            status_names=status_names,
            phase=phase,
            phase_names=phase_names,
            spans=_spans(table, "server"),
            client_spans=own,
            ok=is_ok(table),
            measured=inside & labelled_measure,
            mislabelled=int(np.count_nonzero(inside != labelled_measure)),
        )

    def sent_by(self, shards: Collection[int]) -> Window:
        """The same of the records of these senders alone."""
        mine = np.isin(self.shard, [*shards])
        arrays: dict[str, Any] = {
            name: value[mine] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        spans, client_spans = (
            {name: values[mine] for name, values in part.items()} for part in (self.spans, self.client_spans)
        )
        return replace(self, **arrays, spans=spans, client_spans=client_spans)

    @property
    def duration_s(self) -> float:
        """The length of the measured window, s."""
        return (self.end_ns - self.start_ns) / NS_PER_S

    @property
    def left_ns(self) -> NDArray[np.int64]:
        """The send, less what it waited for a connection by the user's wish: what is late of it is the client's."""
        return self.sent_ns if self.connection_wait_ns is None else self.sent_ns - self.connection_wait_ns

    @property
    def joined_ns(self) -> NDArray[np.int64]:
        """The send, less all the time without a free connection: what is late of it is the delay of this send alone."""
        return self.sent_ns if self.connection_busy_ns is None else self.sent_ns - self.connection_busy_ns

    @property
    def completed(self) -> NDArray[np.bool_]:
        """The good answers that arrived within the window."""
        return self.ok & (self.done_ns > self.start_ns) & (self.done_ns <= self.end_ns)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """The window's requests that got a good answer, whenever it came."""
        return self.measured & self.ok

    def error_counts(self) -> dict[str, int]:
        """The window's failed requests by kind, the most frequent first."""
        failed = np.bincount(self.status[self.measured & ~self.ok], minlength=len(self.status_names))
        kinds = [(self.status_names[code], int(count)) for code, count in enumerate(failed) if count]
        return dict(sorted(kinds, key=lambda item: (-item[1], item[0])))

    @property
    def failed_ratio(self) -> float:
        """The share of the window's requests without a good answer, 0 where there are none."""
        return float((~self.ok)[self.measured].mean()) if self.measured.any() else 0.0

    @property
    def dropped(self) -> int:
        """The window's requests that were never sent."""
        return self.error_counts().get(DROPPED, 0)

    @property
    def queued(self) -> bool:
        """Whether any request waited for a connection of which the user asked for so few."""
        return self.connection_busy_ns is not None and bool(self.connection_busy_ns.any())

    def in_flight_at(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Requests sent and not yet done at each time; those that never ended stay in flight.

        Those that wait for a connection by the user's wish are among them: theirs is a queue before the server.
        """
        was_sent = self.sent_ns >= 0
        sent_ns = np.sort(taken(self.joined_ns, was_sent))
        done_ns = np.sort(taken(self.done_ns, was_sent & (self.done_ns >= 0)))
        in_flight: NDArray[Any] = np.searchsorted(sent_ns, times_ns, "right") - np.searchsorted(
            done_ns, times_ns, "right"
        )
        return in_flight.astype(np.int64)

    def waiting_at(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of them that wait for a connection at each time, and are not at the server."""
        was_sent = self.sent_ns >= 0
        joined_ns, sent_ns = (np.sort(taken(values, was_sent)) for values in (self.joined_ns, self.sent_ns))
        joined, sent = (np.searchsorted(values, times_ns, "right") for values in (joined_ns, sent_ns))
        return (joined - sent).astype(np.int64)

    def in_flight_mean(self) -> float:
        """The mean number in flight over the window, exact."""
        total = 0
        # Piece by piece: millions of records take no memory for it.
        for at in range(0, len(self.sent_ns), _PIECE):
            sent_ns, done_ns = self.sent_ns[at : at + _PIECE], self.done_ns[at : at + _PIECE]
            was_sent = sent_ns >= 0
            ended = np.where(done_ns >= 0, done_ns, self.end_ns)[was_sent]
            begin = np.clip(sent_ns[was_sent], self.start_ns, self.end_ns)
            total += int((np.clip(ended, self.start_ns, self.end_ns) - begin).clip(0).sum())
        return total / (self.end_ns - self.start_ns)


def _spans(table: pa.Table, side: Literal["server", "client"]) -> dict[str, NDArray[Any]]:
    return {span: column(table, name) for span, name in spans_of(side).items() if name in table.column_names}


#: The columns that a window is made of; of the others no figure is.
WINDOW_COLUMNS = tuple(
    column.name
    for column in columns_of(spans=True)
    if column.side or column.name in {field.name for field in fields(Window)}
)
