"""The workers of several devices of one host: a process each, started again when it dies, ended together."""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import FrameType

log = logging.getLogger(__name__)

POLL_S = 0.2
#: A worker that died is started again after so long, twice as long each time it dies soon.
FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S = 1.0, 60.0, 120.0
#: Exit code of a worker that can't work as it was asked: starting it again would change nothing.
BAD_INPUT = 2
_PR_SET_PDEATHSIG = 1


class Fleet:
    """``commands``: by device, what starts its worker. Signals go to all of them; a worker dies with its fleet."""

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self.commands = commands
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, float] = {}
        self._pause_s = dict.fromkeys(commands, FIRST_PAUSE_S)
        self._start_at = dict.fromkeys(commands, 0.0)
        self._signals: list[int] = []
        self._ending = False

    def run(self) -> int:
        """Until all workers have ended after a signal, or one can't work as asked; the exit code."""
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, self._stopped)
        code = 0
        while True:
            for number in self._taken_signals():
                self._ending = True
                self._send(number)
            for device in self.commands:
                ended = self._keep(device)
                if ended == BAD_INPUT and not self._ending:
                    log.error("the worker of %s can't work as it was asked: all of this host end", device)
                    self._ending, code = True, BAD_INPUT
                    self._send(signal.SIGTERM)
            if self._ending and not self._running:
                return code
            time.sleep(POLL_S)

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _taken_signals(self) -> list[int]:
        taken, self._signals = self._signals, []
        return taken

    def _send(self, number: int) -> None:
        for process in self._running.values():
            process.send_signal(number)

    def _keep(self, device: str) -> int | None:
        """Start it where it does not run; its exit code if it has just ended."""
        process, now = self._running.get(device), time.monotonic()
        if process is not None:
            code = process.poll()
            if code is None:
                return None
            del self._running[device]
            steady = now - self._started[device] > STEADY_S
            self._start_at[device] = now + self._pause_s[device]
            self._pause_s[device] = (
                FIRST_PAUSE_S if steady else min(LONGEST_PAUSE_S, 2 * self._pause_s[device])
            )
            log.log(
                logging.INFO if self._ending else logging.WARNING,
                "the worker of %s ended with %d",
                device,
                code,
            )
            return code
        if not self._ending and now >= self._start_at[device]:
            # A session of its own: a terminal's Ctrl-C comes once, from us.
            self._running[device] = subprocess.Popen(
                list(self.commands[device]), stdin=subprocess.DEVNULL, start_new_session=True,
                preexec_fn=_dies_with_us,  # noqa: PLW1509 - the fleet has one thread
            )  # fmt: skip
            self._started[device] = now
        return None


def _dies_with_us() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
