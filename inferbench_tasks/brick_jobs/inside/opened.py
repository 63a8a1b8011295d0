"""The model that such a process is to cut, as ONNX."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.spec import Granularity
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.stages.base import Context, StageInput
from inferbench_tasks.submission.schema import JobSpec


class CutInput(StageInput):
    """``job``: one of kind serving, whose model it is; ``model``: that as ONNX, None where it is still to be made.

    ``shapes``: sizes of inputs that the model leaves open, without the batch.
    """

    model: ModelArtifact | None = None
    shapes: dict[str, tuple[int, ...]] = {}


class DecomposeInput(CutInput):
    """``known``: a file in the run's folder with the identities of which no network is wanted, one a line.

    ``at``, ``copies``, ``task``: the model's in its list; ``wholes``: whether the model is to be timed too;
    ``networks``: false where nothing will be. ``view``: see ``bricks/views.py``; ``runtime``: by which it is
    executed; ``dummy``: the seed of a model that is
    drawn near it and cut in its place.
    """

    at: int = 0
    copies: int = 1
    task: str | None = None
    batch_sizes: tuple[int, ...] = (1,)
    granularity: tuple[Granularity, ...] = (1,)
    method: Method = Method()
    wholes: bool = True
    networks: bool = True
    known: str | None = None
    view: str = "runtime"
    runtime: str = DEFAULT
    dummy: int | None = None


def job_of(
    name: str, model: Spec, user: str | None = None, samples: int = 4, precision: str = "fp32"
) -> JobSpec:
    """A job of kind serving whose model it is; nothing of it is served."""
    more: dict[str, Any] = {} if user is None else {"user": user}
    if precision != "fp32":
        more |= {"convert": {"format": "onnx", "precision": precision}}
    return JobSpec.model_validate(
        {
            "name": name,
            "model": model.model_dump(mode="json"),
            "requests": {"samples": samples},
            "load": {"arrivals": {"kind": "single_stream"}},
            **more,
        }
    )


def opened(inp: CutInput, ctx: Context) -> tuple[ModelSource, ModelArtifact]:
    """Where it comes from, and the model as ONNX: that which was handed over, or made and converted here, or cached.

    Another precision than fp32 is handed over: it is made by the stages of serving, which also compare the answers.
    """
    from inferbench_tasks.formats.conversion import convert_model
    from inferbench_tasks.modelrepo.build import build_model, caches
    from inferbench_tasks.modelrepo.resolve import resolve

    source = resolve(inp.job.model, ctx.base_dir)
    if inp.model is not None:
        return source, inp.model
    assert inp.job.convert.precision == "fp32"
    watch = Watch(ctx.progress, ctx.cancelled)
    artifact = build_model(source, ctx.data_dir, watch)
    cache = caches(ctx.data_dir, source, "conversions")
    return source, convert_model(artifact, "onnx", "fp32", cache, watch=watch).model
