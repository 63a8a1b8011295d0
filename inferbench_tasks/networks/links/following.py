"""What is asked of the far side while something lasts: the time, by which two clocks are put on one, and its state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from inferbench_tasks.contracts.link import RoundTrips
from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.timing.two_clocks import Exchange

Ask = Callable[[NearSide], str]


def its_state(near: NearSide) -> str:
    """What the far side says has gone wrong there; "" of nothing."""
    return near.tell(wire.STATE)


def nothing(near: NearSide) -> str:
    """Of a far side that has no state to tell."""
    return ""


class Follow:
    """``exchanges``: those so far. ``failure``: what was found to have gone wrong, ``lost``: why nobody tells it any
    more; "" until then.
    """

    def __init__(self, near: NearSide, every_s: float, ask_every: int = 1, ask: Ask = its_state) -> None:
        """``every_s``: between two exchanges; ``ask_every``: how many of them before it is asked what has failed."""
        self._near, self._every_s, self._ask_every, self._ask = near, every_s, ask_every, ask
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="far-side", daemon=True)
        self.exchanges: list[Exchange] = []
        self.failure = self.lost = ""

    @property
    def over(self) -> bool:
        """Whether nothing more is asked."""
        return bool(self.failure or self.lost)

    def begin(self) -> None:
        """In a thread, the only one that uses the connection until ``end``, a failure, or that there is no way."""
        self._thread.start()

    def end(self) -> None:
        """Harmless where it never began."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(wire.TIMEOUT_S + 5)

    def _run(self) -> None:
        turn = 0
        try:
            while not self._end.wait(self._every_s):
                self.exchanges += self._near.exchanges(1, self._every_s)
                turn += 1
                if turn % self._ask_every == 0 and (failure := self._ask(self._near)):
                    self.failure = failure
                    return
        except LoadError as error:
            self.lost = str(error)


@contextmanager
def followed(near: NearSide, every_s: float, ask_every: int = 1, ask: Ask = its_state) -> Iterator[Follow]:
    """From entering to leaving."""
    follow = Follow(near, every_s, ask_every, ask)
    follow.begin()
    try:
        yield follow
    finally:
        follow.end()


def trips_within(exchanges: Sequence[Exchange], start_ns: int, end_ns: int) -> RoundTrips | None:
    """The round trips of a window of the clock that asked; None where nobody asked in it."""
    trips = [e.round_trip_ns for e in exchanges if start_ns <= e.sent_ns and e.received_ns <= end_ns]
    return RoundTrips.of(trips) if trips else None
