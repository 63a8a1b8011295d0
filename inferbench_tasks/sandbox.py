"""What a process that makes or converts models may do to its machine.

Linux's Landlock closes all of the file system to its writes but the folders that it is given, keeps its signals and
abstract sockets from other processes, and it can't gain privileges by a program that it starts; there are no core
dumps. None of it can be undone by the process, and what it starts inherits it. Landlock is asked for by its system
calls, whose numbers are the same on every architecture; none of it needs privileges.

``INFERBENCH_SANDBOX``: ``require`` refuses to run where the kernel has no Landlock, ``off`` leaves it out; what a
run had is in its record.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from inferbench_tasks.errors import InputError

SANDBOX = "INFERBENCH_SANDBOX"
SETTINGS = ("on", "require", "off")
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
#: Write, remove, and make any kind of file.
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
#: No abstract socket and no signal out of the sandbox.
_SCOPES = 0b11
#: Of our environment only these reach such a process; secrets of Airflow, brokers and databases do not.
NAMES = {
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX",
    "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "no_proxy", "JAVA_HOME", "MPLBACKEND", "CUDA_HOME", "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
}  # fmt: skip
PREFIXES = (
    "LC_",
    "PYTHON",
    "XDG_",
    "INFERBENCH_",
    "TF_",
    "KERAS_",
    "OMP_",
    "MKL_",
    "MALLOC_",
    "COVERAGE_",
)
SECRETS = (
    "PERFDB_URI", "METADATA_DB", "BROKER_URL", "NOTIFY", "PASSWORD", "SECRET", "TOKEN", "_KEY", "API_KEY", "CREDENTIAL",
)  # fmt: skip
#: Settings of package installers, for processes that may install a package, and those of the way to an index.
INSTALLERS = ("PIP_", "UV_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
#: An address with a login in it.
LOGIN = re.compile(r"://[^/\s@]+@")


def setting() -> str:
    """``INFERBENCH_SANDBOX``; InputError for what it can't be."""
    value = os.environ.get(SANDBOX) or "on"
    if value not in SETTINGS:
        raise InputError(f"{SANDBOX}={value[:40]!r}; allowed: {', '.join(SETTINGS)}")
    return value


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; 0 without it."""
    if not hasattr(os, "O_PATH"):
        return 0
    version = ctypes.CDLL(None, use_errno=True).syscall(
        _CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG
    )
    return max(0, int(version))


def state() -> str:
    """For a run's record: what processes that make and convert models were kept from."""
    if setting() == "off":
        return "off"
    abi = landlock_abi()
    if not abi:
        return "no new privileges; this kernel has no Landlock"
    return f"no new privileges, Landlock {abi}" + (
        "" if abi >= 6 else " (signals and sockets are not kept in)"
    )


def require() -> None:
    """InputError where ``INFERBENCH_SANDBOX`` requires what the kernel doesn't have."""
    if setting() == "require" and not landlock_abi():
        raise InputError(
            f"{SANDBOX}=require, and this kernel has no Landlock (Linux 5.13 or newer, enabled at boot)"
        )


def environment(
    variables: Mapping[str, str],
    also: Iterable[str] = (),
    *,
    installs: bool = False,
    credentials: bool = False,
) -> dict[str, str]:
    """Those variables that such a process may see: none that is called like a secret, or is an address with a login.

    ``installs``: it may install a package, and sees the settings of the installers too; ``credentials``: with logins
    of the indexes and proxies, which the installers need.
    """
    names = set(also)
    prefixes = PREFIXES + INSTALLERS if installs else PREFIXES

    def visible(name: str, value: str) -> bool:
        if credentials and (name.startswith(INSTALLERS) or name in PROXIES):
            return True
        secret = any(word in name for word in SECRETS) or LOGIN.search(value)
        return (name in NAMES or name.startswith(prefixes)) and not secret

    return {name: value for name, value in variables.items() if name in names or visible(name, value)}


def enter(writable: Iterable[str]) -> None:
    """Close everything but these folders to this process's writes, for good; to be called before any thread starts.

    Folders that don't exist are left out. OSError where the kernel refuses what it offers.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    abi = landlock_abi()
    if not abi:
        return
    writes = _WRITES | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    # The attribute's size tells the kernel which version of it this is.
    attribute = struct.pack("=QQQ", writes, 0, _SCOPES) if abi >= 6 else struct.pack("=Q", writes)
    ruleset = _call(libc, _CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), 0)
    try:
        for folder in writable:
            if not Path(folder).is_dir():
                continue
            descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                _call(libc, _ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", writes, descriptor), 0)
            finally:
                os.close(descriptor)
        _call(libc, _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _call(libc: ctypes.CDLL, number: int, *arguments: object) -> int:
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result
