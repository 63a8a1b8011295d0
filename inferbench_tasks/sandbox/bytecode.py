"""Bytecode of what a process in the sandbox imports: it can't write any, so who started it does.

Without it each start would compile the same packages again: seconds for PyTorch, in every cold start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import inferbench_tasks

TIMEOUT_S = 120


def lacking() -> list[str]:
    """The sources of imported modules that have no bytecode, or that of an older source."""
    sources = []
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        source, cached = getattr(spec, "origin", None), getattr(spec, "cached", None)
        if (
            isinstance(source, str)
            and isinstance(cached, str)
            and source.endswith(".py")
            and _is_older(cached, source)
        ):
            sources.append(source)
    return sources


def write(sources: Iterable[str]) -> int:
    """Compile those of them that are packages of this interpreter, or ours; the rest is nobody's to name here.

    Nothing of it is run. Returns how many were taken; 0 where this process writes no bytecode.
    """
    if sys.dont_write_bytecode:
        return 0
    roots = [
        os.path.realpath(root)
        for root in (sys.prefix, sys.base_prefix, Path(inferbench_tasks.__file__).parent)
    ]
    paths = {os.path.realpath(source) for source in sources if "\n" not in source}
    own = sorted(p for p in paths if p.endswith(".py") and any(p.startswith(f"{root}/") for root in roots))
    if own:
        command = [sys.executable, "-m", "compileall", "-q", "-j", "0", "-i", "-"]
        # What has no valid source, or lies where we may not write, stays without.
        subprocess.run(
            command, input="\n".join(own), text=True, capture_output=True, check=False, timeout=TIMEOUT_S
        )
    return len(own)


def _is_older(cached: str, source: str) -> bool:
    try:
        return os.stat(cached).st_mtime < os.stat(source).st_mtime
    except FileNotFoundError:
        return os.path.exists(source)
    except OSError:
        return False
