"""How many tasks may be with the host workers, running or next."""

from __future__ import annotations

import os
from typing import Any

from inferbench_tasks.errors import InputError

#: The others are kept back: the most urgent comes first, and a Celery queue is first in, first out. At least the
#: processes of the host workers, with one in reserve for each.
HOST_SLOTS = "INFERBENCH_HOST_SLOTS"
DEFAULT_HOST_SLOTS = 4


class HostSlots:
    """Counts the tasks that were sent and have not ended."""

    def __init__(self) -> None:
        text = os.environ.get(HOST_SLOTS) or str(DEFAULT_HOST_SLOTS)
        if not text.isdecimal() or int(text) < 1:
            raise InputError(f"{HOST_SLOTS} is {text!r}; a whole number from 1 is needed.")
        self._slots = int(text)
        self._taken: set[Any] = set()

    def ended(self, running: set[Any]) -> None:
        """What does not run (any more) gives its slot back."""
        self._taken &= running

    def take(self, key: Any) -> bool:
        """A slot for a task, if there is one."""
        if len(self._taken) >= self._slots:
            return False
        self._taken.add(key)
        return True
