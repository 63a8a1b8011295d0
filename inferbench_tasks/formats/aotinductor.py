"""AOTInductor packages: an exported program compiled ahead of time to machine code for this processor."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import warnings
from functools import cache
from pathlib import Path

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import Format, Predict, Settings


class AotInductorFormat(Format):
    """Compiled by PyTorch's Inductor with the machine's C++ compiler; half a minute for a small model.

    A package holds a shared library, which runs whatever it wants: it is only made here and never taken from a user.
    """

    kind = "aotinductor"
    title = "AOTInductor package"
    extra = "torch"
    packages = ("torch",)
    file = "model.pt2"
    sources = {"pt2": ("fp32",)}
    given = False
    is_code = True

    def unavailable(self) -> str | None:
        """A compiler is needed beside PyTorch."""
        if compiler() is None:
            return "compiling needs a C++ compiler (g++); install one or set CXX"
        return super().unavailable()

    def versions(self) -> dict[str, str]:
        """The code is for this processor: another one makes its own."""
        return {**super().versions(), "processor": processor()}

    def open(self, model: ModelArtifact) -> Predict:
        require("torch")
        import torch

        from inferbench_tasks.formats.torch import predictor

        torch.set_num_threads(1)
        try:
            package = torch._inductor.aoti_load_package(model.path)
        except Exception as error:
            raise InputError(f"The AOTInductor package {model.path} can't be loaded: {error}") from error
        return predictor(package, model)

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        require("torch")
        import torch

        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.load(source.path)
            torch._inductor.aoti_compile_and_package(program, package_path=str(folder / self.file))


def compiler() -> str | None:
    """The C++ compiler that Inductor will use; None if there is none."""
    return shutil.which(os.environ.get("CXX", "g++"))


@cache
def processor() -> str:
    """A digest of the processor's instruction sets; its name where it does not tell them."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else " ".join(os.uname())
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    features = " ".join(sorted(flags[1].split())) if flags else os.uname().machine
    return hashlib.sha256(features.encode()).hexdigest()[:16]
