"""What a cut was made from: a key by which it is found again without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts.cache import key_of
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.registered import settings_of
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.submission.model import ModelSpec


def made_from(
    model: ModelSpec, base_dir: Path, precision: str, shapes: Mapping[str, Sequence[int]] | None = None
) -> str:
    """A key: the source's content (of a file its digest, of a registered model that of its version, of a built-in one
    its recipe and its libraries' versions), the precision that it is converted to, the sizes of its free inputs.

    A name alone is none of that: a newer version, or another file of that name, is another key. Raises what ``resolve``
    raises; makes, converts and opens nothing.
    """
    return _key(resolve(model, base_dir).settings(), precision, shapes or {})


def made_from_card(card: ModelCard, precision: str = "fp32") -> str:
    """The same of a registered model, without the sizes of its free inputs: ``CutModel.source``."""
    return _key(settings_of(card), precision, {})


def _key(source: Mapping[str, Any], precision: str, shapes: Mapping[str, Sequence[int]]) -> str:
    sizes = {name: list(shape) for name, shape in shapes.items()}
    return key_of({"source": dict(source), "precision": precision, "shapes": sizes})
