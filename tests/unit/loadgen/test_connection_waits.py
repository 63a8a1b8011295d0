"""When a request finds one of a few connections free, against a queue that is played through."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.loadgen.connection_waits import free_from, with_waits
from inferbench_tasks.loadgen.window import Window
from tests.samples import samples_table


def played(intended: list[int], service: list[int], connections: int) -> tuple[list[int], list[int]]:
    """Starts and ends of a queue, first come, first served, with so many servers."""
    free = [0] * connections
    starts, ends = [], []
    for moment, length in zip(intended, service, strict=True):
        starts.append(max(moment, heapq.heappop(free)))
        ends.append(starts[-1] + length)
        heapq.heappush(free, ends[-1])
    return starts, ends


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), min_size=1, max_size=60), st.integers(1, 5)
)
def test_who_leaves_as_soon_as_a_connection_is_free_has_waited_for_nothing_else(
    requests: list[tuple[int, int]], connections: int
) -> None:
    """Of any queue with so many servers: its starts are the moments that the ends of others allow, to the ns."""
    intended = np.cumsum([gap for gap, _ in requests]) + 1
    starts, ends = played(intended.tolist(), [length for _, length in requests], connections)
    allowed = np.maximum(intended, free_from(np.array(ends), connections))
    assert allowed.tolist() == starts


def test_each_sender_has_connections_of_its_own() -> None:
    """Two senders with one each don't wait for one another; what was never sent lets nobody wait."""
    table = samples_table(
        {
            "intended_ns": [10, 11, 12, 13, 14], "sent_ns": [10, 11, 30, -1, 50], "done_ns": [30, 40, 45, 14, -1],
            "shard": [0, 1, 0, 0, 0],
        }
    )  # fmt: skip
    window = with_waits(Window.of(table, 5, 100), (1, 1))
    assert window.connection_wait_ns is not None
    assert window.connection_wait_ns.tolist() == [0, 0, 18, 0, 31]
    assert window.left_ns.tolist() == [10, 11, 12, -1, 19]
    assert with_waits(window, None) is window
