"""``.pt2``: an exported program of ``torch.export``, with a dynamic batch."""

from __future__ import annotations

import warnings
from pathlib import Path

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import Format, Predict, Settings


class Pt2Format(Format):
    """Programs of ``torch.export``, run by PyTorch."""

    kind = "pt2"
    title = "PyTorch exported program"
    extra = "torch"
    packages = ("torch",)
    file = "model.pt2"
    sources = {"torch": ("fp32", "fp16", "bf16")}

    def open(self, model: ModelArtifact) -> Predict:
        require("torch")
        import torch

        from inferbench_tasks.formats.torch import predictor

        torch.set_num_threads(1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = torch.export.load(model.path).module()
        except Exception as error:
            raise InputError(f"The exported program {model.path} can't be loaded: {error}") from error
        return predictor(module, model)

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        from inferbench_tasks.formats import torch as torch_format
        from inferbench_tasks.formats.reduced import at_precision

        module = at_precision(torch_format.load(Path(source.path)), settings.precision)
        import torch

        auto = torch.export.Dim.AUTO
        shapes = tuple(
            ({} if source.batch_size else {0: auto})
            | {i + 1: auto for i, size in enumerate(spec.shape) if size == -1}
            for spec in source.inputs
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(
                module, torch_format.examples(source), dynamic_shapes=_as_taken(module, shapes)
            )
            torch.export.save(program, str(folder / self.file))


def _as_taken(module: object, shapes: tuple[dict[int, object], ...]) -> object:
    """A forward that takes ``*given`` wants the shapes of all its arguments as one."""
    from inspect import Parameter, signature

    parameters = list(signature(module.forward).parameters.values())  # type: ignore[attr-defined]
    starred = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    return (shapes,) if starred else shapes
