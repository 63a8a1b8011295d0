"""A process with all that it started: its descendants, its session, and what is of its user."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Fields of /proc/PID/stat after the command's name.
_STATE, _PPID, _SESSION, _THREADS, _STARTED, _RSS = 0, 1, 3, 17, 19, 21
#: Rounds of ending what goes on starting more; the first ones only hold it.
_ROUNDS = 50


@dataclass(frozen=True)
class Member:
    """One process. ``started``: clock ticks since boot, with which a number that was given again is told apart."""

    pid: int
    started: int
    tasks: int
    resident_bytes: int


def members(pid: int, uid: int | None = None) -> list[Member]:
    """What is alive of the group; ``uid``: its own user, which finds what left its session and its parents."""
    rows: dict[int, list[bytes]] = {}
    chosen: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError, IndexError):  # it ended meanwhile
            fields = _stat(int(name))
            if fields[_STATE] in (b"Z", b"X"):
                continue
            rows[int(name)] = fields
            in_session = int(name) == pid or int(fields[_SESSION]) == pid
            if in_session or (uid is not None and os.stat(f"/proc/{name}").st_uid == uid):
                chosen.add(int(name))
    children: dict[int, list[int]] = {}
    for number, fields in rows.items():
        children.setdefault(int(fields[_PPID]), []).append(number)
    waiting = list(chosen)
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in chosen]
        chosen.update(new)
        waiting += new
    return [_member(number, rows[number]) for number in sorted(chosen)]


def again(group: Iterable[Member]) -> list[Member]:
    """The same processes as they are now, those that have ended left out: cheaper than to look for new ones."""
    present = []
    for member in group:
        with suppress(OSError, IndexError):
            fields = _stat(member.pid)
            if int(fields[_STARTED]) == member.started and fields[_STATE] not in (b"Z", b"X"):
                present.append(_member(member.pid, fields))
    return present


def resident_bytes(group: Iterable[Member]) -> int:
    """Its memory, shared pages counted in each."""
    return sum(member.resident_bytes for member in group)


def own_bytes(group: Iterable[Member]) -> int:
    """Its memory, pages that are shared counted once: as the kernel says, else those of the process with most of them.

    The kernel reads page tables for it, under a lock that the process needs: for who is about to end it.
    """
    total, shared = 0, [0]
    for member in group:
        with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            try:
                text = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
                total += int(text.partition("\nPss:")[2].split()[0]) * 1024
            except PermissionError:  # another user's, and no right to look into it
                pages = [int(number) for number in Path(f"/proc/{member.pid}/statm").read_text().split()]
                total += (pages[1] - pages[2]) * _PAGE_BYTES
                shared.append(pages[2] * _PAGE_BYTES)
    return total + max(shared)


def end(pid: int, uid: int | None = None) -> None:
    """End all of it at once, also what goes on starting more: first it is held, then it is ended."""
    for round_ in range(_ROUNDS):
        group = members(pid, uid)
        if not group:
            return
        for member in group:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member.pid, signal.SIGSTOP if round_ < 2 else signal.SIGKILL)


def _stat(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        content = file.read(1024)
    return content[content.rindex(b")") + 2 :].split()


def _member(pid: int, fields: list[bytes]) -> Member:
    return Member(pid, int(fields[_STARTED]), int(fields[_THREADS]), int(fields[_RSS]) * _PAGE_BYTES)
