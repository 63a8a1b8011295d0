"""The model that ``inferbench bricks`` takes apart, and what it is fed with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    from inferbench_tasks.contracts.handles import ModelArtifact
    from inferbench_tasks.contracts.models import ModelSource, Watch


def source_of(model: str, framework: str | None) -> ModelSource:
    """A built-in model by its name, or a file or folder by its path. InputError where it is neither."""
    from pydantic import ValidationError

    from inferbench_tasks.modelrepo.resolve import resolve
    from inferbench_tasks.modelrepo.zoo import ZOO
    from inferbench_tasks.submission.model import FileModel, ZooModel

    path = Path(model).expanduser()
    try:
        if model not in ZOO and (path.exists() or path.suffix):
            if framework is not None:
                raise InputError(
                    "a file has the framework that it has; leave --framework out", field="framework"
                )
            file = path.resolve()
            return resolve(FileModel(kind="file", path=file.name), file.parent)
        return resolve(ZooModel.model_validate({"kind": "zoo", "name": model, "framework": framework}), path)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InputError(f"{model} is no model: {problems}") from None


def onnx_of(source: ModelSource, watch: Watch) -> ModelArtifact:
    """The model made and converted, or from the cache."""
    from inferbench_tasks.formats.conversion import convert_model
    from inferbench_tasks.modelrepo.build import build_model, caches

    data_dir = settings.writable(settings.data_dir())
    artifact = build_model(source, data_dir, watch)
    return convert_model(artifact, "onnx", "fp32", caches(data_dir, source, "conversions"), watch=watch).model


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
