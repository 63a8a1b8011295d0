"""``torch_export``: programs of ``torch.export`` in our FastAPI server, as they are or compiled ahead of time."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from inferbench_tasks.backends.base import Deployment, Prepared
from inferbench_tasks.backends.torchscript import TorchScript
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.servers.sources.absent import COMPILED


class TorchExport(TorchScript):
    """The model's format decides the engine and the label."""

    kind = "torch_export"
    formats: ClassVar[tuple[str, ...]] = ("pt2", "aotinductor")
    title = "exported program, PyTorch"

    _compiled = False

    @classmethod
    def levels_of(cls, model_format: str) -> tuple[str, ...]:
        """PyTorch's profiler sees nothing within compiled code."""
        levels = cls.traced_levels
        return levels[: levels.index("layer")] if model_format == "aotinductor" else levels

    @classmethod
    def not_deeper(cls, model_format: str) -> str:
        """Of compiled code."""
        return COMPILED if model_format == "aotinductor" else ""

    def engine_of(self, model: ModelArtifact) -> str:
        """One engine per format, with the same name."""
        return model.format

    def label(self) -> str:
        """Runtime and server; compiled ahead of time or not."""
        return (
            super().label().replace("exported program", "AOTInductor") if self._compiled else super().label()
        )

    def prepare(self, deployment: Deployment) -> Prepared:
        """As every server of ours; a compiled model has a folder for what its loading compiles."""
        self._compiled = deployment.model.format == "aotinductor"
        prepared = super().prepare(deployment)
        if not self._compiled or deployment.spec.launcher != "process":
            return prepared
        # PyTorch asks the compiler what the processor can do, for up to a minute, and keeps the answer as code that
        # later loads run. So each model has a folder of its own, by its content: what it writes reaches no other.
        folder = deployment.cache_dir / "inductor" / (deployment.model.digest or deployment.model_name)
        folder.mkdir(parents=True, exist_ok=True)
        launch = prepared.launch
        reach = replace(launch.reach, writes=(*launch.reach.writes, str(folder)))
        env = {**launch.env, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
        return replace(prepared, launch=replace(launch, reach=reach, env=env))
