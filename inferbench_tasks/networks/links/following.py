"""What is asked of the far side while something lasts: the time, by which two clocks are put on one, and its state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.timing.two_clocks import Exchange


class Follow:
    """``exchanges``: those so far. ``failure``: what the far side says has gone wrong there, ``lost``: why nobody tells
    it any more; "" until then.
    """

    def __init__(self, near: NearSide, every_s: float, state_every: int = 1) -> None:
        """``every_s``: between two exchanges; ``state_every``: how many of them before the state is asked."""
        self._near, self._every_s, self._state_every = near, every_s, state_every
        self.exchanges: list[Exchange] = []
        self.failure = self.lost = ""

    @property
    def over(self) -> bool:
        """Whether nothing more is asked."""
        return bool(self.failure or self.lost)

    def run(self, end: threading.Event) -> None:
        """Until the end, or until there is a failure or no way; nobody else may use the connection meanwhile."""
        turn = 0
        try:
            while not end.wait(self._every_s):
                self.exchanges += self._near.exchanges(1, self._every_s)
                turn += 1
                if turn % self._state_every == 0 and (failure := self._near.tell(wire.STATE)):
                    self.failure = failure
                    return
        except LoadError as error:
            self.lost = str(error)


@contextmanager
def followed(near: NearSide, every_s: float, state_every: int = 1) -> Iterator[Follow]:
    """Followed in a thread, which alone uses the connection until this is left."""
    follow, end = Follow(near, every_s, state_every), threading.Event()
    thread = threading.Thread(target=follow.run, args=(end,), name="far-side", daemon=True)
    thread.start()
    try:
        yield follow
    finally:
        end.set()
        thread.join(wire.TIMEOUT_S + 5)
