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
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from inferbench_tasks.errors import InputError, MissingExtraError

log = logging.getLogger(__name__)

#: Written into an environment by ``scripts/setup_env.py``: the folder of the checkout that made it.
MARKER = "inferbench-managed"


#: What the heavy ones took on disk when measured, for whoever waits for one.
MEGABYTES = {
    "torch": 940,
    "tensorflow": 2200,
    "openvino": 190,
    "tflite": 60,
    "cluster": 120,
    "video": 120,
    "trace-ui": 50,
}


def names() -> frozenset[str]:
    """All optional parts; they are declared in one place, ``project.optional-dependencies`` of pyproject.toml."""
    return frozenset(metadata.metadata("inferbench").get_all("Provides-Extra") or ())


def missing(extra: str) -> list[str]:
    """The distributions of an optional part that are not installed; empty when all are.

    One counts as installed too where a module of its name can be found: other builds (``tensorflow-cpu``) have
    another name for the same modules. Raises InputError for a part that InferBench does not have.
    """
    if extra not in names():
        raise InputError(f"InferBench has no optional part {extra!r}; it has: {', '.join(sorted(names()))}")
    from packaging.requirements import Requirement  # every command imports this module, few ask

    texts = (text for text in metadata.requires("inferbench") or () if "extra ==" in text)
    requirements = (Requirement(text) for text in texts)
    needs = [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra})]
    return [name for name in needs if not _is_there(name)]


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
    size = f"about {MEGABYTES[extra]} MB, " if extra in MEGABYTES else ""
    print(f"Installing the optional part {extra!r} ({size}once) ...", file=sys.stderr, flush=True)
    root = Path(marker.read_text().strip())
    with FileLock(str(marker) + ".lock"):
        if missing(extra):
            command = [sys.executable, str(root / "scripts" / "setup_env.py"), "--extra", extra]
            # The environment may be others' too: it is read as the rest of it is.
            process = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022)
            if process.returncode:
                end = "\n".join((process.stderr or process.stdout).strip().splitlines()[-8:])
                raise MissingExtraError(f"Installing {extra!r} failed; {remedy}.\n{end}")
    importlib.invalidate_caches()
    if left := missing(extra):
        raise MissingExtraError(f"{extra!r} was installed but {', '.join(left)} is still missing; {remedy}.")
    log.info("installed extra=%s", extra)


def version_for_key(distribution: str) -> str:
    """The version of one that may not be installed yet, for keys of caches; ``missing`` then."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "missing"


def _is_there(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return importlib.util.find_spec(distribution.replace("-", "_")) is not None
    return True
