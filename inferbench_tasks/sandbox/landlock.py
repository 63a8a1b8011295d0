"""Linux's Landlock, by its system calls, whose numbers are the same on every architecture; it needs no privileges.

What a thread gives up by it, all that it starts has given up too.
"""

from __future__ import annotations

import ctypes
import os
import struct

from inferbench_tasks.sandbox.reach import DEVICES, Reach, devices, system_reads

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH, _NET_PORT = 1, 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REMOVE_DIR, _MAKE_DIR = 1 << 4, 1 << 7
_MAKE_SYM = 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_READS = _EXECUTE | _READ_FILE | _READ_DIR
#: Write, remove, and make any kind of file.
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
#: What a rule for a file, which is no folder, may hold.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_BIND_TCP, _CONNECT_TCP = 1, 2
#: No abstract socket and no signal out of the sandbox.
_SCOPES = 0b11
#: The version that brought each part.
SINCE = {"moves": 2, "truncation": 3, "ports": 4, "signals and abstract sockets": 6}


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; 0 without it."""
    if not hasattr(os, "O_PATH"):
        return 0
    version = ctypes.CDLL(None, use_errno=True).syscall(
        _CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG
    )
    return max(0, int(version))


def restrict(reach: Reach) -> None:
    """Hold this thread to the reach, for good. OSError where the kernel refuses what it offers."""
    abi = landlock_abi()
    if not abi:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    writes = _WRITES | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    network = (_BIND_TCP if reach.binds is not None else 0) | (
        _CONNECT_TCP if reach.connects is not None else 0
    )
    if abi < SINCE["ports"]:
        network = 0
    # The attribute's size tells the kernel which version of it this is.
    attribute = struct.pack("=Q", writes | _READS)
    if abi >= SINCE["signals and abstract sockets"]:
        attribute = struct.pack("=QQQ", writes | _READS, network, _SCOPES)
    elif abi >= SINCE["ports"]:
        attribute = struct.pack("=QQ", writes | _READS, network)
    ruleset = _call(libc, _CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), 0)
    try:
        for path, rights in _paths(reach, writes).items():
            _add_path(libc, ruleset, path, rights)
        for right, ports in ((_BIND_TCP, reach.binds), (_CONNECT_TCP, reach.connects)):
            for port in ports or () if network & right else ():
                _call(libc, _ADD_RULE, ruleset, _NET_PORT, struct.pack("=QQ", right, port), 0)
        _call(libc, _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _paths(reach: Reach, writes: int) -> dict[str, int]:
    rights: dict[str, int] = {}
    for paths, right in (
        ((*system_reads(), *reach.reads), _READS),
        ((*DEVICES, *devices()), _WRITE_FILE | _READ_FILE | _READ_DIR),
        (reach.writes, (writes if reach.links else writes & ~_MAKE_SYM) | _READS),
        (reach.folders, _MAKE_DIR | _REMOVE_DIR),
    ):
        for path in paths:
            rights[path] = rights.get(path, 0) | right
    return rights


def _add_path(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there, or not ours to enter, needs no rule: nothing of it is reached
    try:
        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
            rights &= _OF_FILES
        _call(libc, _ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(libc: ctypes.CDLL, number: int, *arguments: object) -> int:
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result
