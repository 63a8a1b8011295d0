"""Write beside each pin the SHA-256 of every file that may be installed; run by ``make hashes`` after a change.

``constraints.hashes.txt`` are the pins of ``constraints.txt``; ``inferbench_tasks/backends/locks`` are the environments
that backends have of their own, with all that their requirements need; ``scripts/sbom.lock.txt`` is the tool of
``make sbom``. uv asks the index that it is configured for, which is PyPI by default: local builds and mirrors with
wheels of their own must not get into these files, so pip's settings are not handed on here. All wheels of a version
are allowed, for every platform, and its source. PyTorch's build for CPUs is on no such index: its hash is that of
``constraints.torch.txt``.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path

from inferbench_tasks.backends import (
    llama_cpp,
    mlserver,
    other_runtimes,
    torchserve,
    triton_environment,
    vllm_environment,
)
from inferbench_tasks.backends.environments import CPU_TORCH, LOCKS

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sysconfig.get_path("scripts")) / "uv"
SBOM = ("cyclonedx-bom==7.5.0",)


def main() -> int:
    (ROOT / "constraints.hashes.txt").write_text(hashed((ROOT / "constraints.txt").read_text().split()))
    torch = [line for line in (ROOT / "constraints.torch.txt").read_text().splitlines() if "==" in line]
    CPU_TORCH.write_text("\n".join(torch) + "\n")
    for module in (llama_cpp, mlserver, torchserve, triton_environment, vllm_environment):
        environment = module.environment()
        pins = [*environment.bare, *closure(environment.requirements, environment.left_out)]
        (LOCKS / f"{environment.name}.txt").write_text(hashed(pins))
    for package, version in other_runtimes.BROUGHT:
        other_runtimes.lock_of(package, version).write_text(hashed([f"{package}=={version}"]))
    (ROOT / "scripts" / "sbom.lock.txt").write_text(hashed(closure(SBOM)))
    return 0


def closure(requirements: Iterable[str], left_out: Iterable[str] = ()) -> list[str]:
    """The requirements with all that they need on this platform, each at one version; without ``left_out``."""
    if not (never := [f"{name} ; sys_platform == 'never'" for name in left_out]):
        return compiled(requirements).split()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(never))
        file.flush()
        return compiled(requirements, "--override", file.name).split()


def hashed(pins: Iterable[str]) -> str:
    """The pins with the hashes of all their files, in uv's form, which is pip's too."""
    return compiled(pins, "--no-deps", "--generate-hashes")


def compiled(requirements: Iterable[str], *options: str) -> str:
    command = [str(UV), "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"]
    command += ["--python-version", platform.python_version(), *options]
    text = "\n".join(requirements)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
