"""System calls that no model needs are refused, by seccomp: a small program that the kernel runs before each call.

Refused: looking into other processes, mounts, namespaces, modules, the clock, keys, tracing, io_uring (which does
unseen what other calls do), and sockets that Landlock's rules for TCP ports don't see. Everything else is allowed, and
costs nothing: the kernel knows beforehand which calls the program lets pass whatever their arguments are.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from dataclasses import dataclass

_SET_MODE_FILTER = 1
#: Without it older kernels slow all threads down by guards against speculative reads.
_SPEC_ALLOW = 1 << 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: BPF: load a word of the call, jump if equal / greater or equal / any bit set, and, answer.
_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _STREAM, _TYPES, _TCP = 1, 2, 10, 16, 1, 0xF, 6
_FASTOPEN = 0x20000000
_NAMESPACES = 0x7E020080


@dataclass(frozen=True)
class Calls:
    """The numbers of one architecture. ``refused`` get EPERM; ``unknown`` get ENOSYS, the cue for another way."""

    architecture: int
    seccomp: int
    socket: int
    clone: int
    sendto: int
    sendmsg: int
    prlimit: int
    refused: tuple[int, ...]
    unknown: tuple[int, ...] = (425, 426, 427, 435)  # io_uring's; clone3, whose flags can't be read here


#: The same on all: open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, pidfd_getfd, mount_setattr, quotactl_fd.
_NEW = (428, 429, 430, 431, 432, 433, 438, 442, 443)
# In both: ptrace, process_vm_*, kcmp; mount, umount2, pivot_root, chroot, open_by_handle_at; unshare, setns; swap*,
# reboot, kexec*, *_module, syslog, acct, quotactl, set*name; key*; bpf, perf_event_open, userfaultfd; settimeofday,
# adjtimex, clock_*; then of the one uselib, vhangup, iopl, ioperm, of the other vhangup.
CALLS = {
    "x86_64": Calls(
        0xC000003E, 317, 41, 56, 44, 46, 302,
        (101, 310, 311, 312, 165, 166, 155, 161, 304, 272, 308, 167, 168, 169, 246, 320, 175, 176, 313, 103, 163, 179,
         170, 171, 248, 249, 250, 321, 298, 323, 164, 159, 227, 305, 134, 153, 172, 173, *_NEW),
    ),
    "aarch64": Calls(
        0xC00000B7, 277, 198, 220, 206, 211, 261,
        (117, 270, 271, 272, 40, 39, 41, 51, 265, 97, 268, 224, 225, 142, 104, 294, 105, 106, 273, 116, 89, 60,
         161, 162, 217, 218, 219, 280, 241, 282, 170, 171, 112, 266, 58, *_NEW),
    ),
}  # fmt: skip


def available() -> bool:
    """Whether calls can be refused here: Linux's seccomp, on a processor whose calls' numbers are known."""
    if sys.platform != "linux" or os.uname().machine not in CALLS:
        return False
    try:
        with open("/proc/self/status") as file:
            return any(line.startswith("Seccomp:") for line in file)
    except OSError:
        return False


def restrict(*, local_sockets: bool, datagrams: bool, interfaces: bool = False) -> None:
    """Refuse them to this thread and all that it starts, for good; nothing where it is not available."""
    if not available():
        return
    calls = CALLS[os.uname().machine]
    code = program(calls, local_sockets=local_sockets, datagrams=datagrams, interfaces=interfaces)
    text = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(calls.seccomp, _SET_MODE_FILTER, _SPEC_ALLOW, header):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def program(calls: Calls, *, local_sockets: bool, datagrams: bool, interfaces: bool = False) -> bytes:
    """The filter, in classic BPF."""
    answers = {number: _error(errno.EPERM) for number in calls.refused}
    answers |= {number: _error(errno.ENOSYS) for number in calls.unknown}
    special = {
        calls.socket: _socket(local_sockets=local_sockets, datagrams=datagrams, interfaces=interfaces),
        calls.clone: _flagged(0, _NAMESPACES),
        calls.sendto: _flagged(3, _FASTOPEN),
        calls.sendmsg: _flagged(2, _FASTOPEN),
        calls.prlimit: _others_limits(),
    }
    blocks = special | {number: _line(_RET, answer) for number, answer in answers.items()}
    code = [
        _line(_LD, _ARCHITECTURE),
        _line(_JEQ, calls.architecture, 1, 0),
        _line(_RET, _error(errno.EPERM)),
    ]
    code += [_line(_LD, _NUMBER), _line(_JGE, _X32, 0, 1), _line(_RET, _error(errno.EPERM))]
    for number, block in blocks.items():
        code += [_line(_JEQ, number, 0, len(block) // 8), block]
    return b"".join([*code, _line(_RET, _ALLOW)])


def _socket(*, local_sockets: bool, datagrams: bool, interfaces: bool) -> bytes:
    """Streams of TCP, and by the settings any Unix socket, any of the internet's but raw ones, and questions to the
    kernel about its interfaces (netlink's protocol 0).
    """
    refuse, allow = _line(_RET, _error(errno.EACCES)), _line(_RET, _ALLOW)
    unix = _line(_LD, _ARGUMENTS) + (_line(_JEQ, _AF_UNIX, 0, 1) + allow if local_sockets else b"")
    if interfaces:
        unix += _line(_JEQ, _AF_NETLINK, 0, 4) + _line(_LD, _ARGUMENTS + 16)
        unix += _line(_JEQ, 0, 0, 1) + allow + refuse
    family = _line(_JEQ, _AF_INET, 2, 0) + _line(_JEQ, _AF_INET6, 1, 0) + refuse
    kind = _line(_LD, _ARGUMENTS + 8) + _line(_AND, _TYPES)
    if datagrams:
        kind += _line(_JEQ, 2, 0, 1) + allow
    kind += _line(_JEQ, _STREAM, 1, 0) + refuse
    # Landlock's rules are for TCP; MPTCP and SCTP are streams too.
    protocol = _line(_LD, _ARGUMENTS + 16) + _line(_JEQ, 0, 2, 0) + _line(_JEQ, _TCP, 1, 0) + refuse
    return unix + family + kind + protocol + allow


def _flagged(argument: int, flags: int) -> bytes:
    """Refused with any of these flags in the call's argument."""
    refuse = _line(_RET, _error(errno.EPERM))
    return _line(_LD, _ARGUMENTS + 8 * argument) + _line(_JSET, flags, 0, 1) + refuse + _line(_RET, _ALLOW)


def _others_limits() -> bytes:
    """Setting the limits of a process that is named; 0 is the caller, and asking has no new limits.

    An address is not null if either half of it is not.
    """
    named = _line(_LD, _ARGUMENTS) + _line(_JEQ, 0, 4, 0)
    sets = (
        _line(_LD, _ARGUMENTS + 16)
        + _line(_JEQ, 0, 0, 3)
        + _line(_LD, _ARGUMENTS + 20)
        + _line(_JEQ, 0, 0, 1)
    )
    return named + sets + _line(_RET, _ALLOW) + _line(_RET, _error(errno.EPERM))


def _error(number: int) -> int:
    return _ERRNO | number


def _line(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
