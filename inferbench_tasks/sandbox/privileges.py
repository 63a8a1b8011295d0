"""Giving up privileges in the calling thread: none come back by a program; of root's only those over files stay."""

from __future__ import annotations

import ctypes
import os
import struct

from inferbench_tasks.sandbox import account

_PR_CAPBSET_DROP, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _RAISE = 24, 28, 38, 47, 2
#: Another user keeps what it may do, and ``access`` answers by that, as opening a file does.
_NO_SETUID_FIXUP = 1 << 2
_VERSION_3 = 0x20080522
#: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER: files of other users that it reaches anyway (a model, an environment).
KEPT = (0, 1, 3)
_LAST = 63


def drop(uid: int | None = None) -> None:
    """Root's power over the kernel, other processes, devices and the network goes; OSError where the kernel refuses.

    ``uid``: the user that root becomes (``account.draw``), in this thread; what is kept reaches files as before.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    for capability in range(_LAST + 1):
        if capability not in KEPT:  # refused to who has none to lose
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid is not None:
        if libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")
        account.become(uid)
    header = struct.pack("=Ii", _VERSION_3, 0)
    sets = ctypes.create_string_buffer(24)
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")
    kept = sum(1 << capability for capability in KEPT)
    words = list(struct.unpack("=6I", sets.raw))
    words[:3] = [word & kept for word in words[:3]]
    words[3:] = [0, 0, 0]
    if uid is not None:  # what is to reach a program of another user has to be inheritable
        words[2] = words[1]
    if libc.capset(header, struct.pack("=6I", *words)):
        raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")
    for capability in KEPT if uid is not None else ():
        if words[1] >> capability & 1 and libc.prctl(_PR_CAP_AMBIENT, _RAISE, capability, 0, 0):
            raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")
