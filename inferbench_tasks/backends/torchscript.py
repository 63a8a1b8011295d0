"""``torchscript``: TorchScript models by PyTorch in our FastAPI server."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.backends.own_server import OwnServer


class TorchScript(OwnServer):
    """Its OpenMP threads wait passively: spinning ones make it many times slower on shared cores."""

    kind = "torchscript"
    formats: ClassVar[tuple[str, ...]] = ("torchscript",)
    devices = ("cpu", "gpu")
    engine = "torchscript"
    package = "torch"
    extra = "torch"
    title = "TorchScript, PyTorch"
    traced_levels: ClassVar[tuple[str, ...]] = ("model", "framework", "layer", "library")

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """A GPU needs a CUDA build of PyTorch that sees one."""
        reason = super().unavailable(launcher, device)
        if reason or device == "cpu":
            return reason
        import torch

        return None if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no GPU"
