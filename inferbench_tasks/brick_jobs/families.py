"""Families of models: their members are off alike, and what one of them tells of another is little news.

The corpora are one table: a model that is in several has the same family in each, and so have those that are made of
the same blocks (ResNets, ResNeXts and SENets).
"""

from __future__ import annotations

import re
from functools import cache

from inferbench_tasks.bricks.corpus import corpora, read_corpus


def family_of(model: str) -> str:
    """The family that the corpora say; of other models the letters that their name begins with: of ``my-resnet`` that
    is ``my``, and a ``resnet-of-mine`` is among the ResNets."""
    if (family := _families().get(model)) is not None:
        return family
    start = re.match(r"[^\W\d_]+", model)
    return start[0].lower() if start else model


@cache
def _families() -> dict[str, str]:
    return {entry.model: entry.family for name in corpora() for entry in read_corpus(name).models}
