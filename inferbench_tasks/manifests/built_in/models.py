"""Manifests of all built-in models, made of the registries: the zoo, and each canonical family."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import ModelSource, Step
from inferbench_tasks.contracts.pictures import axes_of
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.manifests.kinds.model import ModelManifest
from inferbench_tasks.modelrepo.canonical.source import CanonicalSource
from inferbench_tasks.modelrepo.zoo import ZOO, ZooFactory
from inferbench_tasks.submission.fields import Slot, choices
from inferbench_tasks.submission.model import CanonicalModel, Framework

log = logging.getLogger(__name__)

#: The package of each framework that a model is made with.
PACKAGES = {"torch": "torch", "tensorflow": "tensorflow", "sklearn": "scikit-learn"}
#: What the networks are built with: of TensorFlow the versions that bring Keras 3, whose files of weights these are; of
#: all of them no version that does not exist yet, which may build the same network otherwise.
_NEEDS = {"torch": "torch@^2", "tensorflow": "tensorflow>=2.16,<3", "sklearn": "scikit-learn@^1"}
#: Second number of their versions: rises where manifests say more, or otherwise, of models that stay the same.
EDITION = 1
_FRAMEWORKS: tuple[Framework, ...] = ("torch", "tensorflow")


def models() -> Iterator[ModelManifest]:
    """Each in its usual framework under its own name, in another one with that at its end."""
    for name in ZOO:
        try:
            yield from ZOO.told(name, partial(_in_frameworks, name))
        except InferBenchError as error:  # a package's hides no other
            log.warning("no manifest of the model %s: %s", name, error)
    for family in sorted(families()):
        for framework in _FRAMEWORKS:
            yield _of_family(family, framework)


def families() -> dict[str, type[Any]]:
    """The families of canonical models, by name."""
    return {choices(model, "family")[0]: model for model in Slot.of(CanonicalModel).models()}


def _in_frameworks(name: str, made: ZooFactory) -> list[ModelManifest]:
    usual = made(name, None)
    others = [
        _of_zoo(f"{name}-{framework}", other, framework)
        for framework in _FRAMEWORKS
        if framework != usual.framework and (other := _in_framework(name, framework))
    ]
    return [_of_zoo(name, usual, None), *others]


def _in_framework(name: str, framework: Framework) -> ModelSource | None:
    try:
        return ZOO.load(name)(name, framework)
    except InputError:
        return None


def _of_zoo(name: str, source: ModelSource, framework: Framework | None) -> ModelManifest:
    model = {"kind": "zoo", "name": source.name} | ({"framework": framework} if framework else {})
    return _manifest(name, source, model)


def _of_family(family: str, framework: Framework) -> ModelManifest:
    model = {"kind": "canonical", "family": family, "framework": framework}
    spec = TypeAdapter[Any](CanonicalModel).validate_python(model)
    name = f"canonical-{family}" if framework == "torch" else f"canonical-{family}-{framework}"
    return _manifest(name, CanonicalSource(spec), spec.model_dump(mode="json"))


def _manifest(name: str, source: ModelSource, model: dict[str, Any]) -> ModelManifest:
    inputs, outputs = source.signature() or ((), ())
    package = source.package
    pin = {"name": package.name, "version": package.version, "sha256": package.sha256} if package else None
    dataset = source.dataset()
    return ModelManifest.model_validate(
        {
            "kind": "model",
            "name": name,
            "version": f"{source.recipe}.{EDITION}.0",
            "task": source.task,
            "licence": source.licence,
            "references": _references(source),
            "inputs": [_tensor(source, tensor, source.steps_before(tensor)) for tensor in inputs],
            "outputs": [_tensor(source, tensor, source.steps_after(tensor)) for tensor in outputs],
            "sources": [{"kind": "built_in", "model": model, "package": pin}],
            "framework": _NEEDS.get(source.framework),
            "dataset": f"{dataset.name}@{dataset.version}" if dataset else None,
            "weights": source.weights,
        }
    )


def _tensor(source: ModelSource, tensor: TensorSpec, steps: tuple[Step, ...]) -> dict[str, Any]:
    axes = axes_of(tensor.shape) if source.takes_pictures else None
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "layout": axes and axes.upper(),
        "steps": [asdict(step) for step in steps],
    }


def _references(source: ModelSource) -> list[str]:
    """What the module that builds the network says of it in its first sentence: paper, authors, year."""
    network = getattr(source, "network", None)
    architecture = (getattr(network, "architecture", None) or source.name) if network else source.name
    point = _architectures().get(architecture)
    spec = find_spec(point) if point and ".networks." in point else None
    if spec is None or spec.origin is None:
        return []
    first = _first_sentence(spec.origin)
    return [first] if first else []


@cache
def _first_sentence(module: str) -> str:
    """Of a module's file. Read and not imported: each would bring its framework, seconds and hundreds of megabytes."""
    text = ast.get_docstring(ast.parse(Path(module).read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


@cache
def _architectures() -> dict[str, str]:
    """The architectures of this package's networks, with the module that builds each."""
    return {point.name: point.module for point in entry_points(group="inferbench.architectures")}
