"""The pace of the language-model stand-in: no model, so that nothing can be run, or made of it."""

from __future__ import annotations

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import Format, Predict


class LlmStandInFormat(Format):
    """What its server is told."""

    kind = "llm_stand_in"
    title = "pace of the language-model stand-in (no model)"
    file = "pace.json"
    given = False
    devices = ("cpu",)
    tensors = False

    def open(self, model: ModelArtifact) -> Predict:
        raise InputError(f"{model.name} is no model: it has a pace, and nothing to run")
