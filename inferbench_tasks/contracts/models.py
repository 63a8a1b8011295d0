"""A source of models: what a submission's ``model:`` resolves to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.named_classes import NamedClasses
from inferbench_tasks.contracts.pictures import image_settings
from inferbench_tasks.errors import CancelledError, InputError

if TYPE_CHECKING:  # whoever checks a submission reads this module; few of them compute
    import numpy as np


#: Of an image's three colours.
ColourOrder = Literal["rgb", "bgr"]
#: Others published them, a training that InferBench runs makes them, or nobody trained them.
Weights = Literal["published", "trained_here", "random"]
#: Of a network that nobody trained: right answers are right by chance.
RANDOM_WEIGHTS = "its weights are random, so what is right is right by chance"


@dataclass(frozen=True)
class Made:
    """What ``make`` left in its folder. ``file`` is the model's file or folder there."""

    format: str
    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parameters: int | None = None
    #: Of the weights as they came.
    precision: str = "fp32"
    #: How many samples each call takes; None: any number. What was done to a file so that it can be served, in words.
    batch_size: int | None = None
    adapted: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Package:
    """One wheel by name, version and SHA-256; ``megabytes`` of the download, for people."""

    name: str
    version: str
    sha256: str
    megabytes: int


@dataclass(frozen=True)
class Step:
    """A processor by its kind with its settings, between raw data and a model's tensor."""

    kind: str
    settings: dict[str, Any]


#: Inputs and outputs.
Signature = tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]


class ModelSource(ABC):
    """One model under test. Making it is deterministic: the same settings give the same weights."""

    name: str
    framework: str
    task: str | None = None
    licence: str | None = None
    version: int = 1
    #: Raised when the same settings come to give another model; the first number of its manifest's version.
    recipe: ClassVar[int] = 1
    #: The package that its weights come in, or of what else it is made; None where all of it is made here.
    package: ClassVar[Package | None] = None
    #: Where its weights come from; None: nobody says.
    weights: Weights | None = None
    #: Whether inputs and outputs with three axes, of which the first or the last has 1 or 3 values, are pictures.
    takes_pictures: ClassVar[bool] = False
    #: What a dynamic size of the signature is taken as when FLOPs and bytes are counted.
    dynamic_size: int = 16
    #: Mean and std, in units of 0 to 255, that its images are normalised with.
    pixels: tuple[float, float] = (0.0, 255.0)
    #: Height and width of its images where its input leaves them open; None: nothing is known of them.
    picture_size: tuple[int, int] | None = None
    #: In which order it takes an image's three colours.
    colour_order: ColourOrder = "rgb"
    #: Whether others than those who installed InferBench brought it: it may be code, or a file made to break a library.
    foreign: ClassVar[bool] = False
    #: Why no share of right answers is ever shown of it, whatever the data; None: one may be.
    accuracy_reason: str | None = None
    #: Where ``make`` has put the model, once that is known.
    folder: Path | None = None
    #: The optional part of InferBench that making it needs beside its framework's; installed before it is made.
    extra: str | None = None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that determines the model, versions of the libraries included; a cache key."""

    @abstractmethod
    def make(self, folder: Path, watch: Watch) -> Made:
        """Fetch or train the model into an empty folder."""

    def signature(self) -> Signature | None:
        """Its inputs and outputs as ``make`` gives them; None where only making it tells."""
        return None

    def steps_before(self, tensor: TensorSpec) -> tuple[Step, ...]:
        """From raw data to that input; () where nothing is known of it, and of random weights, to which all data is
        alike."""
        if not self.takes_pictures or self.weights == "random":
            return ()
        settings = image_settings(tensor.shape, self.pixels, self.colour_order)
        return () if settings is None else (Step("image", settings),)

    def steps_after(self, tensor: TensorSpec) -> tuple[Step, ...]:
        """From that output to what a user reads: the class, where it scores those of the model's own data."""
        dataset = self.dataset()
        names = dataset.class_names if dataset is not None and self.weights != "random" else ()
        return (Step("labels", {"names": names}),) if names and tensor.shape == (len(names),) else ()

    def sized(self, layers: int | None, width: int | None) -> ModelSource:
        """The same model in another size; None: its own. InputError where its size can't be chosen."""
        for field_name, value in (("layers", layers), ("width", width)):
            if value is not None:
                raise InputError(
                    f"the size of the model {self.name!r} can't be chosen; leave {field_name} out",
                    field=f"model.{field_name}",
                )
        return self

    def dataset(self) -> Dataset | None:
        """The model's own held-out samples; None where there are none."""
        return None

    def encode(self, texts: list[str]) -> Arrays | None:
        """The model's inputs for texts; None for a model that takes none."""
        return None

    def file_inputs(self, contents: list[bytes]) -> Arrays | None:
        """The model's inputs for whole files, whatever is in them; None for a model that takes none."""
        return None

    def made_up(self) -> Dataset | None:
        """Samples without labels, made up, of a model that has no data of its own; None where nothing is known of its
        inputs but their shapes."""
        return None

    @property
    def names_classes(self) -> bool:
        """Whether ``named_classes`` may have any, as far as that is known without the file."""
        return type(self).named_classes is not ModelSource.named_classes

    def named_classes(self, path: Path) -> NamedClasses | None:
        """Of a model (its file is ``path``) whose classes have names that data sets know: those. InputError where the
        file lacks them."""
        return None

    def characters(self, path: Path) -> tuple[str, ...] | None:
        """Of a model (its file is ``path``) that scores at each place which character stands there, class 0 none
        (CTC): those of class 1, 2, ...; None of all others. InputError where the file lacks them."""
        return None

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        """Seeded random samples that the model accepts: normal floats, small integers."""
        return {spec.name: noise_like(spec, count, rng) for spec in inputs}


@dataclass(frozen=True)
class Watch:
    """How long work tells that it goes on, and notices that it shall not."""

    progress: Any = lambda amount, total, text: None
    cancelled: Any = lambda: False

    def step(self, amount: float, total: float | None, text: str) -> None:
        """Tell progress; CancelledError once the user has stopped the run."""
        if self.cancelled():
            raise CancelledError(f"Cancelled while {text}.")
        self.progress(amount, total, text)


def noise_like(
    spec: TensorSpec, count: int, rng: np.random.Generator, dynamic_size: int = 16, below: int = 2
) -> np.ndarray[Any, Any]:
    """``count`` random samples of one input; a dynamic size becomes ``dynamic_size``.

    Integers lie in [0, ``spec.below``), bytes in all of their range, others in [0, ``below``).
    """
    import numpy as np

    shape = (count, *(dynamic_size if size == -1 else size for size in spec.shape))
    if spec.dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    try:
        dtype = np.dtype(spec.dtype)
    except TypeError:
        dtype = np.dtype("O")
    if dtype.kind == "f":
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    if dtype == np.uint8 and spec.below is None:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if dtype.kind in "iu":
        return rng.integers(0, min(spec.below or below, np.iinfo(dtype).max), shape).astype(dtype)
    raise InputError(
        f"no random values can be made for input {spec.name} ({spec.dtype}); "
        f"give requests: {{kind: files, path: ...}}",
        field="requests.kind",
    )
