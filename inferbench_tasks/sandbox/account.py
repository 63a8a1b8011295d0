"""A user of its own for a process in the sandbox, where root starts it: a number that belongs to nobody.

As the same user a process can do to others what neither Landlock nor seccomp sees: change their priority, their cores
and their limits, and fill what the kernel counts by user. A drawn user can't; the kernel counts its processes alone,
and all that it started, however it detached itself, is found by its number.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from pathlib import Path

from inferbench_tasks.errors import InputError

USER = "INFERBENCH_SANDBOX_USER"
USERS = ("drawn", "same")
#: Neither people nor packages, systemd nor containers get these; where few are mapped, a range that systemd leaves.
_LARGE = range(1_900_000_000, 2_000_000_000)
_SMALL = range(60578, 61184)
_CAPABILITIES = 1 << 6 | 1 << 7 | 1 << 8  # CAP_SETGID, CAP_SETUID, CAP_SETPCAP
#: setgroups, setresgid, setresuid: by number, since the C library's change every thread of the process.
_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
#: Libraries that ask what the user is called find no name for the number.
NAMES = {"USER": "inferbench", "LOGNAME": "inferbench"}


def draw() -> int | None:
    """A user that nobody is at this moment; None where this process can't start others as one, or ``USER`` is "same".

    InputError for what ``USER`` can't be.
    """
    value = os.environ.get(USER) or USERS[0]
    if value not in USERS:
        raise InputError(f"{USER}={value[:40]!r}; allowed: {', '.join(USERS)}")
    if value == "same" or not can_draw():
        return None
    numbers = _LARGE if _is_mapped(_LARGE) else _SMALL
    taken = {os.stat(entry.path).st_uid for entry in _processes()} if numbers is _SMALL else set()
    free = [uid for uid in numbers if uid not in taken] if taken else numbers
    return secrets.choice(free) if free else None


def names(uid: int | None) -> dict[str, str]:
    """Variables for a process that is started as that user; none where it is no other."""
    return {} if uid is None else dict(NAMES)


def can_draw() -> bool:
    """Whether this process is root with the right to start others as another user."""
    if os.geteuid() != 0 or os.uname().machine not in _CALLS:
        return False
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return effective & _CAPABILITIES == _CAPABILITIES and (_is_mapped(_LARGE) or _is_mapped(_SMALL))


def become(uid: int) -> None:
    """Make the calling thread that user, of a group of the same number and no other, for good; OSError if refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    groups, group, user = _CALLS[os.uname().machine]
    for number, arguments in ((groups, (0, None)), (group, (uid,) * 3), (user, (uid,) * 3)):
        if libc.syscall(number, *arguments):
            raise OSError(ctypes.get_errno(), f"a user of its own: {os.strerror(ctypes.get_errno())}")


def _is_mapped(numbers: range) -> bool:
    """Whether the kernel knows these users, and groups, here: a user namespace may map a few."""
    for name in ("uid_map", "gid_map"):
        lines = [
            tuple(map(int, line.split())) for line in Path(f"/proc/self/{name}").read_text().splitlines()
        ]
        if not any(first <= numbers.start and numbers.stop <= first + count for first, _, count in lines):
            return False
    return True


def _processes() -> list[os.DirEntry[str]]:
    return [entry for entry in os.scandir("/proc") if entry.name.isdigit()]
