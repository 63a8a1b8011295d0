"""Small jobs of every network that can be trained."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.training import networks
from inferbench_tasks.training.job import TrainingJob

#: Sizes of networks that would take too long at their usual ones.
SIZES: dict[str, dict[str, int]] = {
    "bert-base": {"layers": 2, "hidden": 32, "heads": 2, "intermediate": 64, "vocabulary": 256, "length": 64},
    "canonical-cnn": {"layers": 1, "channels": 8},
    "canonical-rnn": {"layers": 1, "sequence_length": 8, "input_size": 8, "hidden_size": 32},
    "canonical-transformer": {"layers": 1, "sequence_length": 8, "hidden_size": 32},
}
NETWORKS = tuple(networks.NETWORKS)


def small_job(name: str, batch_size: int = 4, processes: int = 1, **train: Any) -> TrainingJob:
    """A few digits for that network."""
    side = 32 if networks.NETWORKS.load(name).channels == 3 else 28
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "model": {"name": name, "arguments": SIZES.get(name, {})},
            "data": {"kind": "digits", "samples": 8, "image_size": side},
            "train": {"batch_size": batch_size, **train},
            "devices": {"count": processes, "strategy": "ddp" if processes > 1 else "single"},
        }
    )
