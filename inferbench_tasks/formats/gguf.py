"""GGUF: a language model with its tokenizer and chat template in one file, as llama.cpp reads it."""

from __future__ import annotations

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import Format, Predict


class GgufFormat(Format):
    """It is served as it is."""

    kind = "gguf"
    title = "language model in GGUF (llama.cpp)"
    file = "model.gguf"
    devices = ("cpu",)
    tensors = False
    given = False

    def open(self, model: ModelArtifact) -> Predict:
        raise InputError(
            f"{model.name} takes texts and gives tokens, not tensors; a server of language models runs it"
        )
