"""What one loop does again and again, each thing in its own time."""

from __future__ import annotations

import time
from collections.abc import Mapping


class Turns:
    """``every_s``: thing -> seconds between two of its turns; the first is at once."""

    def __init__(self, every_s: Mapping[str, float]) -> None:
        self._every_s = dict(every_s)
        self._next_s = dict.fromkeys(every_s, 0.0)

    def due(self, what: str) -> bool:
        """Whether its turn is now, which it then has had."""
        now = time.monotonic()
        if now < self._next_s[what]:
            return False
        self._next_s[what] = now + self._every_s[what]
        return True

    def put_off(self, what: str, seconds: float) -> None:
        """Its next turn comes so much later."""
        self._next_s[what] += seconds
