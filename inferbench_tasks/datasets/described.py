"""What the manifest of a data set says of it beside its title, origin and licence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.errors import InputError

#: What can be measured where each sample has the label of one class, and where none has a label.
LABELLED, UNLABELLED = ("top1_ratio", "top5_ratio", "macro_f1", "auc"), ("agreement_ratio",)


@dataclass(frozen=True)
class Described:
    """``version``: of the manifest, three numbers; raised whenever it says something else, as when other samples come
    out, for then ``samples_sha256`` (``content.samples_sha256``) is another. ``splits``: samples of each part that can
    be asked. ``split_sha256``: of each but the usual one what ``samples_sha256`` is of that one. ``labels``:
    the name of each class by its id. ``metrics``: measures of quality. ``files``: SHA-256 of what the samples are read
    from, where they are read. ``made_with``: the versions of the distributions (and of ``python``) that decide what
    comes out, for who is told that his samples are others.
    """

    version: str
    samples_sha256: str
    splits: Mapping[str, int]
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = LABELLED
    files: Mapping[str, str] = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)
    split_sha256: Mapping[str, str] = field(default_factory=dict)


def description_of(source: Any) -> Described | None:
    """What a data set's class says of itself; None of one that says nothing. InputError where it is no Described.

    Not what a class above it says: its samples are others, or it would not be there.
    """
    described = vars(source).get("described")
    if described is not None and not isinstance(described, Described):
        raise InputError(
            f"its `described` must be a Described ({__name__}), or None where it has no manifest; it is of the type "
            f"{type(described).__name__}"
        )
    return described
