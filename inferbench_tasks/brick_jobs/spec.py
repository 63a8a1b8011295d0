"""The sections of a submission of ``kind: bricks``.

Only what is really done stands here: anything else is an unknown key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from inferbench_tasks.bricks.bounds import MOST_BATCH, MOST_GRANULARITY
from inferbench_tasks.bricks.measure.method import FEWEST_RUNS, MOST_WITHIN_RATIO, Method
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.contracts.device import CPU, DeviceSpec
from inferbench_tasks.contracts.spec import Slug, Spec
from inferbench_tasks.submission.model import Dim, ModelSpec

#: Whose figures a job of a submission is of; see ``members.py``.
Role = Literal["model", "cut", "shard"]
MOST_MODELS = 1_000
#: What one run of a job may take of its device at most, seconds: a shard is to stay well below it.
MOST_SHARD_S = 1_800.0


class CorpusSpec(Spec):
    """The models of a corpus, each as often as it is there."""

    corpus: Slug
    """``paper50``, ``distinct50``, or another that comes with InferBench."""


class EntrySpec(Spec):
    """One model."""

    model: ModelSpec
    """As ``model`` of a submission of kind serving."""
    copies: Annotated[int, Field(ge=1, le=1_000)] = 1
    """How often it is there: each copy counts in the totals, none is measured again."""
    task: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """What it is for, as reports say it; the model's own unless given."""
    shapes: Annotated[
        dict[str, Annotated[tuple[Dim, ...], Field(strict=False, max_length=16)]], Field(max_length=100)
    ] = {}
    """Sizes of inputs without the batch, by input: needed where the model leaves some open."""


def _form(value: Any) -> str:
    return "listed" if isinstance(value, (list, tuple)) else "named"


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


ModelsSpec = Annotated[
    Annotated[CorpusSpec, Tag("named")]
    | Annotated[
        tuple[EntrySpec, ...], Field(strict=False, min_length=1, max_length=MOST_MODELS), Tag("listed")
    ],
    Discriminator(_form),
]
Precision = Literal["fp32", "fp16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
Granularity = Annotated[int, Field(ge=1, le=MOST_GRANULARITY)] | Literal["whole"]


class BricksSpec(Spec):
    """How models are cut, and at which setting their bricks are measured."""

    granularity: Annotated[
        tuple[Granularity, ...], Field(strict=False, min_length=1, max_length=16), BeforeValidator(_listed)
    ] = (1,)
    """Layers of a brick at most, or ``whole``; with several the models are cut at each."""
    runtime: Slug = DEFAULT
    """What executes the bricks and the models: ``onnxruntime``, ``openvino``, on a GPU ``onnxruntime-cuda`` or
    ``onnxruntime-tensorrt``, or what a package brings."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """The runtime's threads, each with a core of its own."""
    precision: Precision = "fp32"
    """The type that weights are stored and computed in, as ``convert.precision`` makes the models. ``fp16``: what ONNX
    Runtime's processor has no half-precision operator for it computes in fp32, and casts are layers of their own."""
    batch_sizes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MOST_BATCH)], ...],
        Field(strict=False, min_length=1, max_length=32),
        BeforeValidator(_listed),
    ] = (1,)
    """Samples at once; the models are cut and predicted at each."""


class MeasureSpec(Spec):
    """How bricks are timed, and which times of before are used again."""

    runs: Annotated[int, Field(ge=3 * FEWEST_RUNS, le=10_000)] = 100
    """Runs of each brick and state of the caches, in all rounds together."""
    rounds: Annotated[int, Field(ge=3, le=50)] = 3
    """Each times everything of a shard, in an order of its own, between timings of the reference bricks."""
    within_ratio: Annotated[float, Field(ge=0, le=MOST_WITHIN_RATIO)] = 0.0
    """A round of a brick or model ends before its runs are done once their mean is known within this share (95%), which
    saves most of the device's time; 0: all runs, as in the paper."""
    reuse: Literal["fresh", "always", "never"] = "fresh"
    """``fresh``: stored times are used that are not older than ``max_age_days``; ``always``: whatever their age;
    ``never``: everything is measured again, and what was stored stays beside it."""
    max_age_days: Annotated[float, Field(gt=0, le=3_650)] = 30.0
    """How old stored times may be with ``reuse: fresh``."""
    shard_s: Annotated[float, Field(ge=5, le=MOST_SHARD_S)] = 60.0
    """How long one job on a device is to take, about: what is missing is divided among such."""

    @property
    def method(self) -> Method:
        """How each brick is timed."""
        return Method(runs=self.runs, rounds=self.rounds, budget_s=2.0, within_ratio=self.within_ratio)


class ValidateSpec(Spec):
    """Which models are measured as a whole, to be set beside what is predicted of them."""

    models: Literal["all", "none"] = "all"
    """``none``: predictions stand alone, calibrated by whole models that were measured before, if by any."""
    calibrate_on: Annotated[int, Field(ge=0, le=MOST_MODELS)] = 3
    """So many of the other models calibrate each prediction, the first of the list, of about its size where there are
    three such; 0: none. Never the model itself, and fewer than three say nothing. How wide intervals are tell all of
    the others of that size."""


class DeviceOnly(Spec):
    """Where bricks are measured."""

    device: DeviceSpec = CPU
    """``cpu``; ``gpu`` or ``gpu:0`` (the first that ``CUDA_VISIBLE_DEVICES`` leaves) with a runtime of GPUs."""


class PartSpec(Spec):
    """Which part of the work a job is; set where a submission becomes jobs."""

    role: Role
    """``model``: one model is made and converted; ``cut``: all are cut; ``shard``: bricks are measured."""
    at: Annotated[int, Field(ge=0)] = 0
    """Which of its role."""
    models: Annotated[int, Field(ge=1)] = 1
    """How many models there are."""
    shards: Annotated[int, Field(ge=1)] = 1
    """How many shards there are."""
