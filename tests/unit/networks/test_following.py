"""Following the far side while something lasts, over loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.following import Follow, followed
from inferbench_tasks.networks.links.near_side import NearSide
from tests.far_side import listening


class Far:
    """``states``: what it answers, one after the other, the last one again; ``asked``: how often it was."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.asked = 0

    def state(self) -> str:
        self.asked += 1
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


@contextmanager
def near_to(far: Far) -> Iterator[NearSide]:
    with listening(more={wire.STATE: far.state}) as (side, _), NearSide(side.invitation) as near:
        yield near


def until(follow: Follow, exchanges: int) -> None:
    """Wait for so many, or for the end."""
    for _ in range(1000):
        if follow.over or len(follow.exchanges) >= exchanges:
            return
        time.sleep(0.01)
    raise AssertionError(f"{len(follow.exchanges)} exchanges after 10 s")


def test_the_time_is_asked_again_and_again_and_the_state_less_often() -> None:
    """Of each exchange the four moments; the connection is free for others afterwards."""
    far = Far("")
    with near_to(far) as near:
        with followed(near, 0.005, ask_every=3) as follow:
            until(follow, 10)
        exchanges = list(follow.exchanges)
        assert far.asked == len(exchanges) // 3 and not follow.over
        assert near.tell(wire.STATE) == "" and follow.exchanges == exchanges
    assert all(e.sent_ns <= e.arrived_ns <= e.answered_ns <= e.received_ns for e in exchanges)
    assert exchanges == sorted(exchanges, key=lambda exchange: exchange.sent_ns)


def test_a_failure_ends_it_and_is_kept() -> None:
    """What the far side says is asked no more once it has failed."""
    far = Far("", "", "the server was killed")
    with near_to(far) as near, followed(near, 0.005) as follow:
        until(follow, 100)
        assert follow.over and (follow.failure, follow.lost) == ("the server was killed", "")
        assert far.asked == len(follow.exchanges) == 3


def test_a_way_that_is_lost_is_no_failure_of_the_far_side() -> None:
    """The reason is that of the connection; what was exchanged before counts."""
    with near_to(Far("")) as near, followed(near, 0.005) as follow:
        until(follow, 2)
        near._connection.shutdown(socket.SHUT_RDWR)
        until(follow, 10**6)
        assert follow.over and follow.failure == ""
        assert 'the link to "far" (127.0.0.1 port ' in follow.lost and "was lost" in follow.lost
        assert len(follow.exchanges) >= 2
