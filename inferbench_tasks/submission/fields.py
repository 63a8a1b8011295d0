"""What the schema allows at a place, read from the schema itself: so that messages can't disagree with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from inferbench_tasks.arrivals.base import ArrivalProcess, usable
from inferbench_tasks.contracts.spec import PATTERNS, Spec, Versioned, stays_inside
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.slo import SloSpec, bound_type

#: Fields by which one of several classes is chosen, in this order.
DISCRIMINATORS = ("kind", "family")


@dataclass(frozen=True)
class Slot:
    """A place for a value: its type, and what bounds it."""

    annotation: Any
    metadata: tuple[Any, ...] = ()

    @classmethod
    def of(cls, annotation: Any) -> Slot:
        """The place that a type hint describes."""
        if get_origin(annotation) is Annotated:
            inner, *extras = get_args(annotation)
            metadata: list[Any] = []
            for extra in extras:
                metadata += extra.metadata if isinstance(extra, FieldInfo) else [extra]
            deeper = cls.of(inner)
            return cls(deeper.annotation, (*deeper.metadata, *metadata))
        return cls(annotation)

    def members(self) -> list[Slot]:
        """The alternatives of a union, flat; itself otherwise."""
        if get_origin(self.annotation) in (Union, UnionType):
            return [m for arg in get_args(self.annotation) for m in Slot.of(arg).members()]
        return [self]

    def models(self) -> list[type[Spec]]:
        """The classes that a mapping at this place may become; an arrival process for every known kind."""
        nested: list[type[Spec]] = []
        for member in self.members():
            if member.annotation is ArrivalProcess:
                nested += usable().values()
            elif isinstance(member.annotation, type) and issubclass(member.annotation, Spec):
                nested.append(member.annotation)
        return nested

    def model_for(self, value: Any) -> type[Spec] | None:
        """The class that a mapping's ``kind`` (and ``family``) chooses; None while more than one is left."""
        models = self.models()
        for name in DISCRIMINATORS:
            if len(models) > 1 and isinstance(value, dict):
                models = [m for m in models if value.get(name) in choices(m, name)]
        return models[0] if len(models) == 1 else None

    def bound(self, name: str) -> Any:
        """The value of a constraint ("ge", "max_length", ...); None without."""
        for extra in self.metadata:
            if (value := getattr(extra, name, None)) is not None:
                return value
        return None

    def describe(self) -> str:
        """What is allowed here, in words that follow "must be"."""
        name, by_kind = kinds_at(self, None)
        mapping = f"a mapping with {name} (one of: {', '.join(by_kind)}) and what that needs"
        texts = [mapping if by_kind and member.models() else _describe(member) for member in self.members()]
        return " or ".join(dict.fromkeys(filter(None, texts)))


def slot_of(field: FieldInfo) -> Slot:
    """The place of this field of a model."""
    inner = Slot.of(field.annotation)
    return Slot(inner.annotation, (*inner.metadata, *field.metadata))


def choices(model: type[Spec], name: str) -> tuple[str, ...]:
    """The values of a discriminator that lead to this class."""
    field = model.model_fields.get(name)
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def kinds_at(slot: Slot, value: Any) -> tuple[str, dict[str, type[Spec]]]:
    """The discriminator that is still open for a mapping, and the classes by its values."""
    models = slot.models()
    for name in DISCRIMINATORS:
        by_kind = {kind: m for m in models for kind in choices(m, name)}
        choice = value.get(name) if isinstance(value, dict) else None
        remaining = [m for m in models if choice in choices(m, name)]
        if len(by_kind) > 1 and not remaining:
            return name, by_kind
        models = remaining or models
    return DISCRIMINATORS[0], {}


def find_slot(data: Any, path: FieldPath, root: type[Spec]) -> Slot | None:
    """The place at a path below ``root``, in the classes that the data's kinds choose; None if there is none."""
    slot, value = Slot(root), data
    for part in path:
        if isinstance(part, int):
            items = [a for m in slot.members() if get_origin(m.annotation) in (tuple, list) for a in
                     get_args(m.annotation)[:1]]  # fmt: skip
            if not items:
                return None
            slot = Slot.of(items[0])
            value = value[part] if isinstance(value, list) and part < len(value) else None
        else:
            model = slot.model_for(value)
            if model is not None and part in model.model_fields:
                slot = slot_of(model.model_fields[part])
            elif model is SloSpec and part in FIGURES:
                slot = Slot.of(bound_type(FIGURES[part]))
            else:
                return None
            value = value.get(part) if isinstance(value, dict) else None
    return slot


def bounds_figure(path: str) -> bool:
    """Whether a dotted path is that of a bound on a figure, which a package may have brought."""
    section, _, name = path.partition(".")
    return section == "slo" and name in FIGURES and FIGURES[name].better is not None


@cache
def all_paths(root: type[JobBase]) -> frozenset[str]:
    """Every dotted path of a submission without its own kind and its sweep, over all kinds of its sections."""
    fields = {k: f for k, f in root.model_fields.items() if k not in ("kind", "sweep")}
    return frozenset(path for name, f in fields.items() for path in _paths(name, slot_of(f)))


def _paths(prefix: str, slot: Slot) -> Iterator[str]:
    yield prefix
    for model in slot.models():
        for name, field in model.model_fields.items():
            yield from _paths(f"{prefix}.{name}", slot_of(field))


def _describe(slot: Slot) -> str:
    annotation, origin = slot.annotation, get_origin(slot.annotation)
    if annotation is NoneType:
        return ""
    if origin is Literal:
        values = get_args(annotation)
        return f"one of: {', '.join(map(str, values))}" if len(values) > 1 else f"'{values[0]}'"
    if annotation is bool:
        return "true or false"
    if annotation in (int, float):
        return ("a whole number" if annotation is int else "a number") + _range(slot)
    if isinstance(annotation, type) and issubclass(annotation, str):
        return _text(slot)
    if origin in (tuple, list):
        return f"a list{_length(slot)}, each {Slot.of(get_args(annotation)[0]).describe()}"
    if len(models := slot.models()) == 1:
        return f"a mapping with the keys {', '.join(models[0].model_fields)}"
    return "a mapping"


def _range(slot: Slot) -> str:
    low, above, high, below = (slot.bound(name) for name in ("ge", "gt", "le", "lt"))
    if low is not None and high is not None:
        step = slot.bound("multiple_of")
        return f" from {low:,} to {high:,}" + (f", a multiple of {step:,}" if step else "")
    parts = [
        f"{words} {bound:,}"
        for words, bound in (("of at least", low), ("above", above), ("of at most", high), ("below", below))
        if bound is not None
    ]
    return (" " + " and ".join(parts)).replace("and of ", "and ") if parts else ""


def _length(slot: Slot) -> str:
    low, high = slot.bound("min_length"), slot.bound("max_length")
    if low and high:
        return f" of {low:,} to {high:,}"
    return f" of at least {low:,}" if low else f" of at most {high:,}" if high else ""


def _text(slot: Slot) -> str:
    low, high = slot.bound("min_length"), slot.bound("max_length")
    pattern = slot.bound("pattern")
    what = "text" if pattern is None else PATTERNS.get(pattern, f"text that matches {pattern}")
    if any(getattr(extra, "func", None) is stays_inside for extra in slot.metadata):
        what = "a path below the submission's folder"
    if low and high:
        return f"{what} of {low:,} to {high:,} characters"
    if high:
        what = f"{what} of at most {high:,} characters"
    return ", ".join([what, *(extra.words for extra in slot.metadata if isinstance(extra, Versioned))])
