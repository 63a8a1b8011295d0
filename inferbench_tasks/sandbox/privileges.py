"""Giving up privileges in the calling thread: none come back by a program; of root's only those over files stay."""

from __future__ import annotations

import ctypes
import os
import struct

_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_VERSION_3 = 0x20080522
#: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER: files of other users that it reaches anyway (a model, an environment).
KEPT = (0, 1, 3)
_LAST = 63


def drop() -> None:
    """Root's power over the kernel, other processes, devices and the network goes; OSError where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    for capability in range(_LAST + 1):
        if capability not in KEPT:  # refused to who has none to lose
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", _VERSION_3, 0)
    sets = ctypes.create_string_buffer(24)
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")
    kept = sum(1 << capability for capability in KEPT)
    words = list(struct.unpack("=6I", sets.raw))
    words[:3] = [word & kept for word in words[:3]]
    words[3:] = [0, 0, 0]
    if libc.capset(header, struct.pack("=6I", *words)):
        raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")
