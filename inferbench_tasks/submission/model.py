"""``model:`` where the model under test comes from; one class per ``kind``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from inferbench_tasks.contracts.spec import FUNCTION_PATTERN, Count, RelativePath, Slug, Spec
from inferbench_tasks.contracts.stand_in_faults import StandInFaults

Framework = Literal["torch", "tensorflow"]
Dim = Annotated[int, Field(ge=1, le=65_536)]
FunctionName = Annotated[str, Field(pattern=FUNCTION_PATTERN, max_length=100)]
Layers = Annotated[int, Field(ge=1, le=512)]


class ZooModel(Spec):
    """A model that InferBench knows how to make or fetch; ``inferbench models search`` lists them."""

    kind: Literal["zoo"]
    name: Slug
    """A built-in model."""
    framework: Framework | None = None
    """Where a model comes in several; its usual one unless given."""
    layers: Annotated[int, Field(ge=1, le=32)] | None = None
    """Of a model whose size can be chosen (`llama-random`), its own unless given: number of layers."""
    width: Annotated[int, Field(ge=64, le=2048, multiple_of=64)] | None = None
    """As `layers`: values that a token is between layers."""

    @model_serializer(mode="wrap")
    def _without_no_sizes(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Models whose size nobody chose are what they were before there were others, digests included."""
        fields: dict[str, Any] = dump(self)
        return {k: v for k, v in fields.items() if v is not None or k not in ("layers", "width")}


class RegistryModel(Spec):
    """A model of the model repository; the latest version unless one is named."""

    kind: Literal["registry"]
    name: Slug
    """The name that it was registered under."""
    version: Count | None = None
    """The latest unless given."""


class ManifestModel(Spec):
    """A model by its manifest; ``inferbench manifests list model`` lists them. It is resolved when the submission is
    read, to the newest version that fits, and what is measured is that manifest's source.
    """

    kind: Literal["manifest"]
    name: Slug
    """The manifest's name."""
    version: Annotated[str, Field(max_length=200)] = "*"
    """A constraint: ``^1.2``, ``~1.2.3``, ``>=1.2,<3``, ``1.x``; the newest unless given."""


class FileModel(Spec):
    """A model file beside the submission. Nothing is unpickled: only safe formats are read, language models in GGUF
    among them.

    Paths are relative to the submission's folder and may not leave it. Weights in safetensors need
    `module`, a Python file of yours whose function `factory` builds the network: that code is run.
    """

    kind: Literal["file"]
    path: RelativePath
    """The file or folder, relative to the submission."""
    format: Slug | None = None
    """Told by the file's name unless given."""
    module: RelativePath | None = None
    """For .safetensors, and needed there: the Python file that builds the network."""
    factory: FunctionName = "build"
    """The function of `module` that is called, without arguments, and returns a `torch.nn.Module`."""
    signature: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Of a SavedModel: which of its signatures is served; `serving_default`, or its only one, unless given."""

    @model_validator(mode="after")
    def _module_and_weights_belong_together(self) -> FileModel:
        weights = self.path.lower().endswith(".safetensors")
        if weights and self.module is None:
            raise ValueError(
                f"{self.path} has weights and no network; name the Python file that builds it "
                f"(module: net.py), or export the model to ONNX"
            )
        if self.module is not None and not weights:
            raise ValueError(f"module goes with .safetensors weights only, not with {self.path}")
        return self


class StandInModel(Spec):
    """No model: a server that speaks as a language model's does, at the pace that is given here. It says so in every
    answer, and each result does.
    """

    kind: Literal["llm_stand_in"]
    ttft_ms: Annotated[float, Field(ge=0, le=600_000)] = 50.0
    """From the moment a slot takes a request to its first tokens."""
    gap_ms: Annotated[float, Field(ge=0, le=600_000)] = 10.0
    """Between two chunks of tokens."""
    tokens_per_chunk: Annotated[int, Field(ge=1, le=4096)] = 1
    """Tokens that come together."""
    slots: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Requests that are served at once, the others wait; all unless given."""
    faults: StandInFaults | None = None
    """What goes wrong with it; every result names it."""

    @model_serializer(mode="wrap")
    def _without_no_faults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Stand-ins that nothing goes wrong with are what they were before there were faults, digests included."""
        fields: dict[str, Any] = dump(self)
        return {k: v for k, v in fields.items() if v is not None or k != "faults"}


class Training(Spec):
    """A short real training of a canonical model, on the data set of its requests."""

    epochs: Annotated[int, Field(ge=0, le=100)] = 1
    """0 keeps the seeded random weights."""


class _Canonical(Spec):
    kind: Literal["canonical"]
    framework: Framework = "torch"
    """The framework that makes the model."""
    layers: Layers = 2
    """Number of blocks."""
    training: Training = Training()
    """How it is trained before it is served."""


class MlpModel(_Canonical):
    """Fully connected blocks (FC in the paper)."""

    family: Literal["mlp"]
    input_size: Dim = 64
    """Length of the input vector."""
    neurons: Dim = 128
    """Width of each layer."""


class CnnModel(_Canonical):
    """Residual blocks; the input is ``3 x image_size x image_size``."""

    family: Literal["cnn"]
    image_size: Annotated[int, Field(ge=8, le=1024)] = 32
    """Height and width of the input, pixels."""
    channels: Annotated[int, Field(ge=1, le=4096)] = 16
    """Channels of the convolutions."""


class RnnModel(_Canonical):
    """LSTM layers; the input is ``sequence_length x input_size``."""

    family: Literal["rnn"]
    sequence_length: Annotated[int, Field(ge=1, le=8192)] = 32
    """Steps of the input."""
    input_size: Dim = 64
    """Values per step."""
    hidden_size: Dim = 128
    """Width of the state."""


class TransformerModel(_Canonical):
    """Attention blocks; the input is ``sequence_length x hidden_size``."""

    family: Literal["transformer"]
    sequence_length: Annotated[int, Field(ge=1, le=8192)] = 32
    """Tokens of the input."""
    hidden_size: Dim = 128
    """Width of a token."""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads; must divide ``hidden_size``."""

    @model_validator(mode="after")
    def _heads_divide_hidden(self) -> TransformerModel:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"heads ({self.heads}) must divide hidden_size ({self.hidden_size}) without remainder"
            )
        return self


CanonicalModel = Annotated[MlpModel | CnnModel | RnnModel | TransformerModel, Field(discriminator="family")]
ModelSpec = Annotated[
    ZooModel | RegistryModel | ManifestModel | FileModel | StandInModel | CanonicalModel,
    Field(discriminator="kind"),
]
