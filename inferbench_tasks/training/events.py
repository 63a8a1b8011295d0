"""The timing ``events``: stamps on the device's own stream, which wait for nothing, and the host's clock beside them.

What the device does is stamped where it does it, while the host goes on launching: a step's time is what it is without
instruments, but for the stamps themselves. The host's times of the same phases say how long launching took; where they
are as long as the device's, the host holds the device up. A CPU runs in step with its host: there is no stream, and
both columns are of the same clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from inferbench_tasks.training.phases import HEAD, NoInstrument

#: Makes a stamp and returns it; the second function tells the ns between two of them, once the device has passed them.
Stamp = Callable[[], Any]
Between = Callable[[Any, Any], int]


def device_clock(device_type: str) -> tuple[Stamp, Between]:
    """CUDA's events on the current stream, or the host's clock, with which a CPU runs in step."""
    if device_type != "cuda":
        return time.monotonic_ns, lambda start, end: end - start
    import torch

    def stamp() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    return stamp, lambda start, end: round(start.elapsed_time(end) * 1e6)


class DeviceEvents(NoInstrument):
    """A stamp at each border of the phases, read after the epoch. ``step_ns`` is the device's time of a step."""

    def __init__(
        self, phases: Sequence[str], clock: tuple[Stamp, Between], synchronise: Callable[[], None]
    ) -> None:
        self.columns = [*HEAD, *(f"{phase}_{of}_ns" for phase in phases for of in ("device", "host"))]
        self.rows = []
        self._stamp, self._between = clock
        self._synchronise = synchronise
        self._pending: list[tuple[list[int], list[Any], list[int]]] = []
        self._stamps: list[Any] = []
        self._host_ns: list[int] = []

    def step_begins(self) -> None:
        """The border before the first phase."""
        self._stamps, self._host_ns = [self._stamp()], [time.monotonic_ns()]

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """The work of the next phase, and the border behind it."""
        result = work(*arguments)
        self._stamps.append(self._stamp())
        self._host_ns.append(time.monotonic_ns())
        return result

    def step_ends(self, step: int, samples: int, part: int, loader_ns: Sequence[int | None] = ()) -> None:
        """Kept until the device has passed all stamps."""
        self._pending.append(([step, part, samples], self._stamps, self._host_ns))

    def epoch_ends(self) -> None:
        """The rows of all steps."""
        self._synchronise()
        for head, stamps, host_ns in self._pending:
            row: list[int | None] = [*head, host_ns[0], self._between(stamps[0], stamps[-1])]
            for at in range(len(stamps) - 1):
                row += (self._between(stamps[at], stamps[at + 1]), host_ns[at + 1] - host_ns[at])
            self.rows.append(row)
        self._pending = []
