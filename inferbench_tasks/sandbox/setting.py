"""``INFERBENCH_SANDBOX``, and what a sandbox keeps in on this kernel."""

from __future__ import annotations

import os

from inferbench_tasks.errors import InputError
from inferbench_tasks.sandbox import account, landlock, rlimits, seccomp

SANDBOX = "INFERBENCH_SANDBOX"
SETTINGS = ("on", "require", "off")


def setting() -> str:
    """``INFERBENCH_SANDBOX``; InputError for what it can't be."""
    value = os.environ.get(SANDBOX) or "on"
    if value not in SETTINGS:
        raise InputError(f"{SANDBOX}={value[:40]!r}; allowed: {', '.join(SETTINGS)}")
    return value


def missing() -> list[str]:
    """What this kernel can't keep in; empty where it can do all of it."""
    abi = landlock.landlock_abi()
    if not abi:
        gaps = ["files, ports and signals (no Landlock)"]
    else:
        gaps = [what for what, since in landlock.SINCE.items() if abi < since]
    return gaps + ([] if seccomp.available() else ["system calls (no seccomp for this processor)"])


def state() -> str:
    """For a run's record: what processes that make, convert and serve models were kept from."""
    if setting() == "off":
        return "off"
    abi = landlock.landlock_abi()
    parts = [
        "no new privileges",
        *([f"Landlock {abi}"] if abi else []),
        *(["seccomp"] if seccomp.available() else []),
        *(["a user of its own"] if account.draw() is not None else []),
    ]
    gaps = missing() + rlimits.unbounded()
    return ", ".join(parts) + (f"; not kept in: {', '.join(gaps)}" if gaps else "")


def require() -> None:
    """InputError where ``INFERBENCH_SANDBOX`` requires what the kernel doesn't have."""
    if setting() == "require" and (gaps := missing()):
        raise InputError(
            f"{SANDBOX}=require, and this kernel does not keep in: {', '.join(gaps)}. Needed: Linux "
            "6.12 or newer with Landlock enabled at boot, and seccomp"
        )
