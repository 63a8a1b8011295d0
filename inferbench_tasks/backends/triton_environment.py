"""Triton's environment: its binary, ONNX Runtime for its python backend, and the library that this one needs."""

from __future__ import annotations

import shutil
import sysconfig
from ctypes.util import find_library
from functools import cache
from importlib.metadata import version
from pathlib import Path

from inferbench_tasks.backends.environments import LOCKS, Environment, site_packages

PYTRITON = "0.7.0"
NUMPY = "1.26.4"
#: What the stub of the python backend is linked against.
LIBPYTHON = "libpython3.11.so.1.0"


@cache
def libpython_folder() -> str | None:
    """Where the stub finds its library: "" if the loader knows it, None if it is not there."""
    if find_library("python3.11") == LIBPYTHON:
        return ""
    own = str(sysconfig.get_config_var("LIBDIR"))
    return own if (Path(own) / LIBPYTHON).is_file() else None


def finish(folder: Path) -> None:
    """The backend folder: the python backend with the stub of this Python beside it."""
    server = site_packages(folder) / "pytriton" / "tritonserver"
    shutil.copytree(server / "backends", folder / "backends")
    stub = server / "python_backend_stubs" / "3.11" / "triton_python_backend_stub"
    shutil.copy2(stub, folder / "backends" / "python")


def environment() -> Environment:
    """With the same ONNX Runtime as ours, so that a comparison is one of servers."""
    return Environment(
        "triton",
        requirements=(f"numpy=={NUMPY}", f"onnxruntime=={version('onnxruntime')}"),
        bare=(f"nvidia-pytriton=={PYTRITON}",),
        megabytes=330,
        finish=finish,
        lock=LOCKS / "triton.txt",
    )
