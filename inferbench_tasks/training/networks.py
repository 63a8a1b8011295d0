"""What is trained: networks by name, with random weights, and what each of them takes of a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry
from inferbench_tasks.requests.digits import CLASSES

if TYPE_CHECKING:
    from inferbench_tasks.training.job import TrainingJob

#: The only side that the small network takes, pixels.
FASHION_SIDE: Final = 28
#: Scores of the networks that were made for ImageNet.
IMAGENET_CLASSES: Final = 1000
#: Values of a token that is made of a grey pixel.
GREYS: Final = 256
#: Tokens that BERT has positions for.
POSITIONS: Final = 512
#: MobileNetV2 and the ResNets halve an image five times.
_HALVED: Final = 32
Arguments = Mapping[str, int]


@dataclass(frozen=True)
class Argument:
    """A whole number that a network is built by: its usual value, and what is allowed."""

    usual: int
    least: int
    most: int


@dataclass(frozen=True)
class Network:
    """``build``: all arguments (of those that take images ``image_size`` too) -> a ``torch.nn.Module`` that gives
    ``n x classes`` scores.

    ``channels``: of the square images that it takes, with ``side`` where it takes no other; 0: it takes sequences or
    vectors of ``shape`` (by its arguments), float32, or, of ``tokens``, int64 below that argument. ``halved``: its
    normalisation needs more than one value of a channel in a batch, and an image of that side is one value in the end.
    ``has_statistics``: whether it keeps running statistics (any buffer), which DistributedDataParallel sends to all
    ranks before each forward; of a network that does not say so its forward pass may have been such a wait.
    ``divides``: pairs of arguments, of which the first must divide the second.
    """

    build: Callable[[Arguments], Any]
    classes: int = CLASSES
    channels: int = 0
    side: int | None = None
    shape: Callable[[Arguments], tuple[int, ...]] | None = None
    tokens: str | None = None
    halved: int = 0
    has_statistics: bool = True
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    divides: tuple[tuple[str, str], ...] = ()

    def all_of(self, given: Arguments) -> dict[str, int]:
        """Every argument, the usual ones with them."""
        return {name: given.get(name, argument.usual) for name, argument in self.arguments.items()}

    def takes(self, given: Arguments, image_size: int) -> tuple[int, ...]:
        """The shape of a sample."""
        if self.shape is not None:
            return self.shape(self.all_of(given))
        return (self.channels, image_size, image_size)

    def module(self, given: Arguments, image_size: int) -> Any:
        """It, with weights of torch's generator as it stands."""
        own = {"image_size": image_size} if self.channels else {}
        return self.build({**self.all_of(given), **own})

    def problems(self, given: Arguments) -> Iterator[tuple[str, str]]:
        """What is wrong with arguments: name -> why."""
        for name, value in given.items():
            known = self.arguments.get(name)
            if known is None:
                others = ", ".join(self.arguments) or "none"
                yield name, f"is no argument of this network; it has: {others}"
            elif not known.least <= value <= known.most:
                yield name, f"must be from {known.least:,} to {known.most:,}; got {value:,}"
        arguments = self.all_of(given)
        for divisor, name in self.divides:
            if arguments[divisor] and arguments[name] % arguments[divisor]:
                why = f"{arguments[name]:,} is no multiple of {divisor}, {arguments[divisor]:,}"
                yield name if name in given else divisor, why


def of(job: TrainingJob) -> Network:
    """What the job names. The user's own module takes images; how many classes it tells apart it shows itself."""
    if job.model.kind == "file":
        return Network(_user_module, channels=job.model.channels)
    return NETWORKS.load(job.model.name)


def takes(job: TrainingJob) -> tuple[int, ...]:
    """The shape of a sample of that job."""
    return of(job).takes(job.model.arguments, job.data.image_size)


def build(job: TrainingJob, module_folder: str | None = None) -> Any:
    """The job's network. ``module_folder``: where the user's module lies, whose code is run here."""
    if job.model.kind == "file":
        from inferbench_tasks.formats import module_file

        assert module_folder is not None
        return module_file.build(Path(module_folder), job.model.factory)
    return of(job).module(job.model.arguments, job.data.image_size)


def _user_module(arguments: Arguments) -> Any:
    raise InputError("a network of the user's is built by its own module", field="model.kind")


def _fashion(arguments: Arguments) -> Any:
    from inferbench_tasks.modelrepo.networks import fashion

    return fashion.build("torch", "fashion-cnn", {})


def _resnet_18(arguments: Arguments) -> Any:
    from inferbench_tasks.modelrepo.networks import resnet

    return resnet.in_torch(resnet.RESNET_18, bottleneck=False)


def _resnet_50(arguments: Arguments) -> Any:
    from inferbench_tasks.modelrepo.networks import resnet

    return resnet.in_torch(resnet.RESNET_50, bottleneck=True)


def _mobilenet(arguments: Arguments) -> Any:
    from inferbench_tasks.modelrepo.networks import mobilenet

    return mobilenet.build("torch", "mobilenet-v2", {})


def _lstm(arguments: Arguments) -> Any:
    from torch import nn

    from inferbench_tasks.modelrepo.networks import lstm

    return nn.Sequential(lstm.build("torch", "lstm", {}), nn.Linear(lstm.HIDDEN, CLASSES))


def _lstm_shape(arguments: Arguments) -> tuple[int, ...]:
    from inferbench_tasks.modelrepo.networks import lstm

    return (lstm.STEPS, lstm.FEATURES)


def _bert(arguments: Arguments) -> Any:
    import torch
    from torch import Tensor, nn

    from inferbench_tasks.modelrepo.networks import bert

    class Classifier(nn.Module):  # type: ignore[misc]  # to mypy torch's classes are Any
        """BERT's encoder and pooler with a linear classifier on it; no token is masked."""

        def __init__(self) -> None:
            super().__init__()
            self.bert = bert.build(
                "torch", "bert-base", {**arguments, "positions": POSITIONS, "pool": "first"}
            )
            self.classifier = nn.Linear(arguments["hidden"], CLASSES)

        def forward(self, tokens: Tensor) -> Any:
            return self.classifier(self.bert(tokens, torch.ones_like(tokens)))

    return Classifier()


def _canonical(family: str) -> Callable[[Arguments], Any]:
    def make(arguments: Arguments) -> Any:
        from inferbench_tasks.modelrepo.canonical import architectures

        return architectures.build("torch", family, {"kind": "canonical", "family": family, **arguments})

    return make


def _sequence(arguments: Arguments) -> tuple[int, ...]:
    return (arguments["sequence_length"], arguments["input_size"])


_LAYERS: Final = Argument(2, 1, 64)
FASHION_CNN: Final = Network(_fashion, channels=1, side=FASHION_SIDE, has_statistics=False)
RESNET_18: Final = Network(_resnet_18, IMAGENET_CLASSES, 3, halved=_HALVED)
RESNET_50: Final = Network(_resnet_50, IMAGENET_CLASSES, 3, halved=_HALVED)
MOBILENET_V2: Final = Network(_mobilenet, IMAGENET_CLASSES, 3, halved=_HALVED)
LSTM: Final = Network(_lstm, shape=_lstm_shape, has_statistics=False)
#: BERT-base's sizes (Devlin et al., 2019); ``length``: tokens of a sample.
BERT_BASE: Final = Network(
    _bert,
    shape=lambda arguments: (arguments["length"],),
    tokens="vocabulary",
    has_statistics=False,
    arguments={
        "layers": Argument(12, 1, 48),
        "hidden": Argument(768, 8, 4096),
        "heads": Argument(12, 1, 64),
        "intermediate": Argument(3072, 8, 16_384),
        "vocabulary": Argument(30_522, GREYS, 250_000),
        "length": Argument(128, 1, POSITIONS),
    },
    divides=(("heads", "hidden"),),
)
MLP: Final = Network(
    _canonical("mlp"),
    has_statistics=False,
    shape=lambda arguments: (arguments["input_size"],),
    arguments={"layers": _LAYERS, "neurons": Argument(128, 1, 16_384), "input_size": Argument(64, 1, 65_536)},
)
CNN: Final = Network(
    _canonical("cnn"), channels=3, arguments={"layers": _LAYERS, "channels": Argument(16, 1, 1024)}
)
RNN: Final = Network(
    _canonical("rnn"),
    has_statistics=False,
    shape=_sequence,
    arguments={
        "layers": _LAYERS,
        "sequence_length": Argument(32, 1, 2048),
        "input_size": Argument(64, 1, 8192),
        "hidden_size": Argument(128, 1, 8192),
    },
)
TRANSFORMER: Final = Network(
    _canonical("transformer"),
    has_statistics=False,
    shape=lambda arguments: (arguments["sequence_length"], arguments["hidden_size"]),
    arguments={
        "layers": _LAYERS,
        "sequence_length": Argument(32, 1, 2048),
        "hidden_size": Argument(128, 1, 8192),
        "heads": Argument(4, 1, 64),
    },
    divides=(("heads", "hidden_size"),),
)

_HERE: Final = "inferbench_tasks.training.networks"
NETWORKS: Registry[Network] = Registry(
    "network",
    "inferbench.training_networks",
    {
        "fashion-cnn": f"{_HERE}:FASHION_CNN",
        "resnet-18": f"{_HERE}:RESNET_18",
        "resnet-50": f"{_HERE}:RESNET_50",
        "mobilenet-v2": f"{_HERE}:MOBILENET_V2",
        "bert-base": f"{_HERE}:BERT_BASE",
        "lstm": f"{_HERE}:LSTM",
        "canonical-mlp": f"{_HERE}:MLP",
        "canonical-cnn": f"{_HERE}:CNN",
        "canonical-rnn": f"{_HERE}:RNN",
        "canonical-transformer": f"{_HERE}:TRANSFORMER",
    },
)
