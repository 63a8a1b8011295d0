"""The model that ``inferbench bricks`` takes apart, and what it is fed with."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import field_problems

if TYPE_CHECKING:
    from inferbench_tasks.contracts.handles import ModelArtifact
    from inferbench_tasks.stages.base import Context, Progress
    from inferbench_tasks.submission.model import ModelSpec


@dataclass(frozen=True)
class Named:
    """A model as it was named: ``spec`` as submissions say it, relative to ``base_dir``."""

    name: str
    spec: ModelSpec
    base_dir: Path


def named(model: str, framework: str | None) -> Named:
    """A built-in model by its name, one with versions by NAME@VERSION, or a file or folder by its path.

    A whole number is a version of the model repository, ``1.2.0`` or a constraint (``^1.2``) one of a model's manifest.
    InputError where it is none of these.
    """
    from pydantic import ValidationError

    from inferbench_tasks.modelrepo.resolve import resolve
    from inferbench_tasks.modelrepo.zoo import ZOO
    from inferbench_tasks.submission.model import FileModel, ZooModel

    path = Path(model).expanduser()
    name, at, version = model.partition("@")
    spec: ModelSpec
    try:
        if at and path.name == model and not path.exists():
            _own_framework(framework, "a registered model")
            spec, base = _versioned(name, version), path
        elif model not in ZOO and (path.exists() or path.suffix):
            _own_framework(framework, "a file")
            file = path.resolve()
            spec, base = FileModel(kind="file", path=file.name), file.parent
        else:
            spec = ZooModel.model_validate({"kind": "zoo", "name": model, "framework": framework})
            base = path
        return Named(resolve(spec, base).name, spec, base)
    except ValidationError as error:
        problems = "; ".join(field_problems(error))
        raise InputError(f"{model} is no model: {problems}", field="model") from None


def _own_framework(framework: str | None, what: str) -> None:
    if framework is not None:
        raise InputError(f"{what} has the framework that it has; leave --framework out", field="framework")


def _versioned(name: str, version: str) -> ModelSpec:
    """What a submission would say for it."""
    from pydantic import TypeAdapter

    from inferbench_tasks.abilities import INSTALLED
    from inferbench_tasks.submission.model import ModelSpec, RegistryModel

    if version.isascii() and version.isdigit():
        return RegistryModel.model_validate({"kind": "registry", "name": name, "version": int(version)})
    manifest = INSTALLED.manifests().manifest("model", name, version)
    source: ModelSpec = TypeAdapter(ModelSpec).validate_python(INSTALLED.source_of(manifest, Path.cwd()))
    return source


@contextmanager
def asked(
    model: Named, progress: Progress, precision: str = "fp32"
) -> Iterator[tuple[dict[str, Any], Context]]:
    """The common fields of what a process in the sandbox is asked of a model, and where; its run's folder goes in the
    end. In another precision than fp32 it is made first, by the stages of serving: they compare the answers."""
    from inferbench_tasks.brick_jobs.inside.opened import job_of
    from inferbench_tasks.running.perform import perform
    from inferbench_tasks.stages.base import Context

    ctx = Context(
        data_dir=settings.writable(settings.data_dir()), base_dir=model.base_dir, progress=progress, run_stage=perform
    )  # fmt: skip
    run_id = f"bricks-{uuid.uuid4().hex[:12]}"
    try:
        common = {
            "run_id": run_id,
            "job_id": run_id,
            "job": job_of("bricks", model.spec, precision=precision),
        }
        yield common | ({} if precision == "fp32" else {"model": _converted(common, ctx)}), ctx
    finally:
        shutil.rmtree(ctx.run_dir(run_id), ignore_errors=True)


def _converted(common: dict[str, Any], ctx: Context) -> ModelArtifact:
    from inferbench_tasks.running.perform import perform
    from inferbench_tasks.stages import convert, generate

    made = perform(generate, generate.Input(**common), ctx)
    converted: convert.Output = perform(convert, convert.Input(**common, generate=made), ctx)
    return converted.model


def sizes_of(text: str) -> tuple[str, tuple[int, ...]]:
    """``image=3x224x224`` as a name and its sizes."""
    match = re.fullmatch(r"(.+)=(\d+(?:x\d+)*)", text)
    sizes = tuple(int(size) for size in match[2].split("x")) if match else ()
    if match is None or 0 in sizes:
        raise InputError(
            f"{text!r} is no INPUT=SIZES; for instance image=3x224x224, or input_ids=128 (without the batch)",
            field="shape",
        )
    return match[1], sizes
