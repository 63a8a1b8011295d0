"""TorchScript, by tracing: exact, and it works where scripting does not (BERT)."""

from __future__ import annotations

import warnings
from pathlib import Path

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import Format, Predict, Settings


class TorchScriptFormat(Format):
    """TorchScript modules, run by PyTorch."""

    kind = "torchscript"
    title = "TorchScript"
    extra = "torch"
    packages = ("torch",)
    file = "model.pt"
    sources = {"torch": ("fp32", "fp16", "bf16")}

    def open(self, model: ModelArtifact) -> Predict:
        require("torch")
        import torch

        from inferbench_tasks.formats.torch import predictor

        torch.set_num_threads(1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                module = torch.jit.load(model.path, map_location="cpu").eval()
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(f"The TorchScript model {model.path} can't be loaded: {error}") from error
        return predictor(module, model)

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        from inferbench_tasks.formats import torch as torch_format
        from inferbench_tasks.formats.reduced import at_precision

        module = at_precision(torch_format.load(Path(source.path)), settings.precision)
        import torch

        with warnings.catch_warnings(), torch.no_grad():
            # Shapes that become constants are what the comparison with another batch size finds.
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(module, torch_format.examples(source), check_trace=False, strict=False)
            torch.jit.save(torch.jit.freeze(traced), str(folder / self.file))
