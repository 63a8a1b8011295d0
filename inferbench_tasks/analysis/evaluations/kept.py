"""What was made once and is asked for again, by keys whose values never change: the last ones that were asked for."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Kept(Generic[_Key, _Value]):
    """At most ``most`` of them. Safe in several threads, which may make the same at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        #: The one that was asked for last stands last.
        self._values: dict[_Key, _Value] = {}

    def get(self, key: _Key) -> _Value | None:
        """None where it has to be made."""
        with self._lock:
            if key not in self._values:
                return None
            self._values[key] = value = self._values.pop(key)
            return value

    def put(self, key: _Key, value: _Value) -> None:
        """Those that were asked for longest ago are given up for it."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            while len(self._values) > self._most:
                del self._values[next(iter(self._values))]
