"""What a cut was made from: keys by which it is found again without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from inferbench_tasks.artifacts.cache import key_of
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.registered import settings_of
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.submission.model import ModelSpec


class Keys(NamedTuple):
    """``CutModel.made_from`` and ``CutModel.source``: with the sizes of the model's free inputs, and without them."""

    made_from: str
    source: str


def keys_of(settings: Mapping[str, Any], precision: str, shapes: Mapping[str, Sequence[int]]) -> Keys:
    """``settings``: what the source's content is (of a file its digest, of a registered model that of its version, of a
    built-in one its recipe and its libraries' versions); ``precision``: what it is converted to; ``shapes``: the sizes
    of its free inputs.

    A name alone is none of that: a newer version, or another file of that name, has other keys.
    """
    of = {"source": dict(settings), "precision": precision}
    sizes = {name: list(shape) for name, shape in shapes.items()}
    return Keys(key_of({**of, "shapes": sizes}), key_of({**of, "shapes": {}}))


def made_from(model: ModelSpec, base_dir: Path, precision: str, shapes: Mapping[str, Sequence[int]]) -> str:
    """The key of what a submission names. Raises what ``resolve`` raises; makes, converts and opens nothing."""
    return keys_of(resolve(model, base_dir).settings(), precision, shapes).made_from


def made_from_card(card: ModelCard, precision: str = "fp32") -> str:
    """The key of a registered model, without the sizes of its free inputs."""
    return keys_of(settings_of(card), precision, {}).source
