"""Part of ``generate`` and ``evaluate``: answers of models that score characters (CTC), their reader."""

from __future__ import annotations

import json
from pathlib import Path

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.datasets.fit import Fitted
from inferbench_tasks.quality.ctc import CtcReader
from inferbench_tasks.stages.read_as_texts import Texts

_FILE = "characters.json"
KIND = "ctc"


def texts_of(dataset: Dataset) -> Texts | None:
    """None where the model scores no characters."""
    if not isinstance(dataset, Fitted) or dataset.characters is None:
        return None
    reader = CtcReader(dataset.characters)
    facts = {"rule": "greedy", "characters": len(reader.characters)}
    return Texts(KIND, reader, facts, "character_error_ratio", lambda folder: write(folder, reader))


def write(folder: Path, reader: CtcReader) -> None:
    """Beside the samples."""
    (folder / _FILE).write_text(json.dumps(list(reader.characters)))


def read(folder: Path) -> CtcReader | None:
    """What ``write`` left; None where there is nothing to be read."""
    path = folder / _FILE
    return CtcReader(tuple(json.loads(path.read_text()))) if path.exists() else None
