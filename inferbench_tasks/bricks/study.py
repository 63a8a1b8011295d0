"""How much of models recurs: within each, and across them (DLBricks, section 2.2, Figures 5 to 7).

Two layers are the same where their bricks have one key: operator, attributes, shapes and types, weights left aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict


class Cut(BaseModel):
    """What a study knows of one model: its bricks in order, by key, with their types.

    ``bookkeeping``: the keys of bricks that give integers only (shapes, indices, pads that the converter spells out) or
    take nothing but constants; other frameworks do not count them as layers. ``layers``: of all bricks together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    view: str
    instruction_set: str | None
    granularity: str
    layers: int
    keys: tuple[str, ...]
    operators: dict[str, str]
    bookkeeping: frozenset[str]

    @property
    def unique(self) -> frozenset[str]:
        return frozenset(self.keys)

    def without_bookkeeping(self) -> Cut:
        """The same without those bricks; ``layers`` are left as they are."""
        keys = tuple(key for key in self.keys if key not in self.bookkeeping)
        return self.model_copy(update={"keys": keys, "bookkeeping": frozenset()})


@dataclass(frozen=True)
class Studied:
    """One model of a corpus; ``copies``: how often it is there."""

    name: str
    family: str
    copies: int
    cut: Cut
    layers_of_source: int | None = None
    differs: str | None = None


def unique_ratio(cut: Cut) -> float | None:
    """Figure 5: the share of a model's bricks that differ from each other; None of a model without any."""
    return len(cut.unique) / len(cut.keys) if cut.keys else None


def repeated_types(cut: Cut) -> dict[str, int]:
    """Figure 6: type -> bricks that are like an earlier one of the model. Their sum is bricks less unique ones."""
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    for key in cut.keys:
        if key in seen:
            counts[cut.operators[key]] += 1
        seen.add(key)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def jaccard(one: Cut, other: Cut) -> float | None:
    """Figure 7: the unique bricks that both have over those that either has; None where neither has any."""
    return jaccard_of(one.unique, other.unique)


def jaccard_of(one: frozenset[str], other: frozenset[str]) -> float | None:
    """What both have over what either has; None where neither has any."""
    either = one | other
    return len(one & other) / len(either) if either else None


@dataclass(frozen=True)
class Totals:
    """Of a whole corpus: all bricks of all copies, and how many of them differ from each other."""

    models: int
    architectures: int
    layers: int
    bricks: int
    unique: int

    @property
    def unique_ratio(self) -> float | None:
        return self.unique / self.bricks if self.bricks else None


def totals(models: Sequence[Studied]) -> Totals:
    """Each copy counts among the bricks, and only once among the unique ones."""
    return Totals(
        models=sum(model.copies for model in models),
        architectures=len(models),
        layers=sum(model.copies * model.cut.layers for model in models),
        bricks=sum(model.copies * len(model.cut.keys) for model in models),
        unique=len(frozenset[str]().union(*(model.cut.unique for model in models))),
    )


def without_bookkeeping(models: Sequence[Studied]) -> list[Studied]:
    """The same models without their bookkeeping."""
    return [
        Studied(m.name, m.family, m.copies, m.cut.without_bookkeeping(), m.layers_of_source, m.differs)
        for m in models
    ]


def rows(models: Sequence[Studied]) -> list[dict[str, Any]]:
    """One for each architecture. ``new``: its unique bricks that no model before it in the corpus has."""
    known: set[str] = set()
    made = []
    for model in models:
        cut = model.cut
        made.append(
            {
                "model": model.name,
                "family": model.family,
                "copies": model.copies,
                "layers": cut.layers,
                "bookkeeping": sum(key in cut.bookkeeping for key in cut.keys),
                "layers_of_source": model.layers_of_source,
                "bricks": len(cut.keys),
                "unique": len(cut.unique),
                "unique_ratio": unique_ratio(cut),
                "new": len(cut.unique - known),
                "repeated_types": repeated_types(cut),
                "differs": model.differs,
            }
        )
        known |= cut.unique
    return made


def document(models: Sequence[Studied]) -> dict[str, Any]:
    """The whole study as values: totals, with and without bookkeeping, rows, and the Jaccard grid."""

    def said(total: Totals) -> dict[str, Any]:
        return {
            "models": total.models,
            "architectures": total.architectures,
            "layers": total.layers,
            "bricks": total.bricks,
            "unique": total.unique,
            "unique_ratio": total.unique_ratio,
        }

    repeated: Counter[str] = Counter()
    for model in models:
        for name, count in repeated_types(model.cut).items():
            repeated[name] += count * model.copies
    plain = without_bookkeeping(models)
    return {
        "totals": said(totals(models)),
        "totals_without_bookkeeping": {k: v for k, v in said(totals(plain)).items() if k != "layers"},
        "repeated_types": dict(sorted(repeated.items(), key=lambda item: (-item[1], item[0]))),
        "models": rows(models),
        "jaccard": {
            "models": [model.name for model in models],
            "grid": [[jaccard(one.cut, other.cut) for other in models] for one in models],
        },
    }
