"""The stand-in for a language model: the pace of a server that says in every answer that it is no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.models import Made, ModelSource, Watch
from inferbench_tasks.submission.model import StandInModel

FILE = "pace.json"


class StandInSource(ModelSource):
    """What ``model: {kind: llm_stand_in}`` resolves to."""

    framework = "llm_stand_in"
    task = "text-generation"

    def __init__(self, spec: StandInModel) -> None:
        self._spec = spec
        #: One with faults is another thing wherever models are told apart by their names.
        self.name = "llm-stand-in" if spec.faults is None else "llm-stand-in-with-faults"

    def settings(self) -> dict[str, Any]:
        return self._spec.model_dump(mode="json")

    def make(self, folder: Path, watch: Watch) -> Made:
        (folder / FILE).write_text(json.dumps(self._spec.model_dump(mode="json", exclude={"kind"})))
        return Made("llm_stand_in", FILE, inputs=(), outputs=())
