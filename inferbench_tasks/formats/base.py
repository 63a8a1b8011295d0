"""A model format: how a model is written in it, and how such a model is run to check its answers.

Converting goes along edges: each format names the formats that it can be made from directly. The rest is
found as a way over several of them (``formats.route``). A way's last edge decides the precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.extras import installable, missing, version_for_key
from inferbench_tasks.registry import Registry

#: A loaded model: outputs by name for inputs by name, first axis = batch.
Predict = Callable[[Arrays], Arrays]

#: Allowed max|converted - source| / max|source| where a submission sets none. Full precision: what
#: differently ordered sums may differ by; the others: what rounding to their mantissa may do to a deep
#: network. Whether an int8 model is still good is told by its accuracy.
TOLERANCE_RATIO = {"fp32": 1e-3, "fp16": 2e-2, "bf16": 1e-1, "int8": 3e-1}


@dataclass(frozen=True)
class Settings:
    """``calibration``: real samples, for a precision whose scales are measured."""

    precision: str = "fp32"
    calibration: Arrays = field(default_factory=dict)


class Format(ABC):
    """One format. The class attributes are its card in ``inferbench formats``."""

    kind: ClassVar[str]
    title: ClassVar[str]
    #: Part of InferBench that brings what it needs (see ``extras``), and the packages themselves.
    extra: ClassVar[str | None] = None
    packages: ClassVar[tuple[str, ...]] = ()
    #: File or folder name of a model of this format within an artefact's folder.
    file: ClassVar[str]
    #: Format that it is made from -> the precisions which that way can give.
    sources: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    #: False: a framework's own form, which no backend serves.
    servable: ClassVar[bool] = True
    #: False: models only become it; none comes in it.
    given: ClassVar[bool] = True
    #: True: a model of it is machine code, which does what it wants as soon as it is loaded.
    is_code: ClassVar[bool] = False
    #: False: a model of it takes texts and gives streams of tokens: no answers are compared with its source's.
    tensors: ClassVar[bool] = True
    #: True: its values are in full precision, whatever its source had them packed in.
    unpacks: ClassVar[bool] = False
    #: Where a model of it can be made and run; what can't be on the CPU is made without a child, which sees no GPU.
    devices: ClassVar[tuple[str, ...]] = ("cpu", "gpu")
    #: Precisions whose scales are measured on real samples.
    calibrated: ClassVar[frozenset[str]] = frozenset()

    def unavailable(self) -> str | None:
        """Why models of this format can't be made or run here; None if they can. Looks, installs nothing."""
        if self.extra is None or not missing(self.extra) or installable():
            return None
        return f"the optional part {self.extra!r} is not installed (run `make all`)"

    def digest(self, path: Path) -> str:
        """The SHA-256 over the model's files, in hex digits."""
        return tree_digest(path)

    @abstractmethod
    def open(self, model: ModelArtifact) -> Predict:
        """Load a model to run it here, on one CPU thread.

        Raises InputError where the file is no safe and whole model of this format.
        """

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        """Write ``folder / file``, made from a model of one of ``sources``. Raises ConversionError."""
        raise NotImplementedError(f"{self.kind} is made from no other format")

    def refusal(self, source: ModelArtifact) -> str | None:
        """Why a model of one of ``sources`` can't become it, as far as its file tells without converting; else None."""
        return None

    def versions(self) -> dict[str, str]:
        """The libraries that decide what ``convert`` writes; part of the cache key."""
        return {package: version_for_key(package) for package in self.packages}


FORMATS: Registry[type[Format]] = Registry(
    "model format",
    "inferbench.formats",
    {
        "sklearn": "inferbench_tasks.formats.sklearn:SklearnFormat",
        "torch": "inferbench_tasks.formats.torch:TorchFormat",
        "keras": "inferbench_tasks.formats.keras:KerasFormat",
        "onnx": "inferbench_tasks.formats.onnx:OnnxFormat",
        "torchscript": "inferbench_tasks.formats.torchscript:TorchScriptFormat",
        "pt2": "inferbench_tasks.formats.pt2:Pt2Format",
        "aotinductor": "inferbench_tasks.formats.aotinductor:AotInductorFormat",
        "tensorrt": "inferbench_tasks.formats.tensorrt:TensorRtFormat",
        "savedmodel": "inferbench_tasks.formats.savedmodel:SavedModelFormat",
        "tflite": "inferbench_tasks.formats.tflite:TfliteFormat",
        "openvino": "inferbench_tasks.formats.openvino:OpenVinoFormat",
        "gguf": "inferbench_tasks.formats.gguf:GgufFormat",
        "safetensors": "inferbench_tasks.formats.safetensors:SafetensorsFormat",
        "llm_stand_in": "inferbench_tasks.formats.llm_stand_in:LlmStandInFormat",
    },
)
