"""``torch_export``: programs of ``torch.export`` in our FastAPI server, as they are or compiled ahead of time."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.backends.base import Deployment, Prepared
from inferbench_tasks.backends.torchscript import TorchScript
from inferbench_tasks.contracts.handles import ModelArtifact


class TorchExport(TorchScript):
    """The model's format decides the engine and the label."""

    kind = "torch_export"
    formats: ClassVar[tuple[str, ...]] = ("pt2", "aotinductor")
    title = "exported program, PyTorch"

    _compiled = False

    def engine_of(self, model: ModelArtifact) -> str:
        """One engine per format, with the same name."""
        return model.format

    def label(self) -> str:
        """Runtime and server; compiled ahead of time or not."""
        return (
            super().label().replace("exported program", "AOTInductor") if self._compiled else super().label()
        )

    def prepare(self, deployment: Deployment) -> Prepared:
        """Prepare the launch as every server of ours does."""
        self._compiled = deployment.model.format == "aotinductor"
        return super().prepare(deployment)
