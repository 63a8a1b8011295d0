"""What a sweep varied, as independent axes, and a grid of two that all of them are folded into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.labels import plain, short_names
from inferbench_tasks.dotted import last

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


#: Either names the model, and it takes both where a sweep has models of different kinds.
_MODEL = ("model.name", "model.family")


@dataclass(frozen=True)
class Axis:
    """``labels``: its values in order; ``place``: which of them each run has."""

    title: str
    labels: tuple[str, ...]
    place: tuple[int, ...]


def axes_of(views: Sequence[RunView]) -> list[Axis]:
    """The independent axes, those with the most values first; [] unless runs lie on their full grid, one per point.

    Settings that moved together (format and backend, the parts of a model) are one axis.
    """
    paths = list(dict.fromkeys(path for view in views for path in view.differs or {}))
    columns = {path: [(view.differs or {}).get(path) for view in views] for path in paths}
    classes = {path: _classes(values) for path, values in columns.items()}
    varied = sorted((path for path in paths if max(classes[path], default=0) > 0), key=_telling)
    independent: list[str] = []
    for path in varied:
        finer = [p for p in varied if p != path and _refines(classes[p], classes[path])]
        equal = [p for p in finer if _refines(classes[path], classes[p])]
        if len(finer) == len(equal) and not any(p in independent for p in equal):
            independent.append(path)
    names = short_names(independent)
    axes = []
    for path in independent:
        together = [p for p in varied if p == path or _refines(classes[path], classes[p])]
        title = "model" if path in _MODEL else names[path]
        axes.append(_axis(title, columns[path], classes[path], [columns[p] for p in together]))
    axes.sort(key=lambda axis: -len(axis.labels))
    points = set(zip(*(axis.place for axis in axes), strict=True)) if axes else set()
    full = 1
    for axis in axes:
        full *= len(axis.labels)
    return axes if len(points) == len(views) == full else []


def fold(axes: Sequence[Axis]) -> tuple[Axis, Axis]:
    """All axes as two: the largest goes across, each next one to the side that is shorter."""
    across, down = axes[0], axes[1]
    for axis in axes[2:]:
        if len(across.labels) <= len(down.labels):
            across = _product(across, axis)
        else:
            down = _product(down, axis)
    return across, down


def _telling(path: str) -> int:
    """Settings that name a thing before those that only go with it; a ``kind`` says the least."""
    name = last(path)
    return 0 if name in ("name", "family", "backend") else 2 if name == "kind" else 1


def _classes(values: Sequence[Any]) -> list[int]:
    """Each value's number, by first appearance."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(repr(value), len(numbers)) for value in values]


def _refines(fine: Sequence[int], coarse: Sequence[int]) -> bool:
    """Whether whoever knows the first knows the second."""
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))


def _axis(title: str, values: list[Any], classes: list[int], together: list[list[Any]]) -> Axis:
    firsts = [classes.index(number) for number in range(max(classes) + 1)]
    own = [values[first] for first in firsts]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in own)
    order = sorted(range(len(own)), key=lambda i: own[i]) if numeric else list(range(len(own)))
    labels = []
    for number in order:
        # A value that is absent here (a zoo model has no family) is told by what stands in its place.
        others = [column[firsts[number]] for column in together]
        value = own[number] if own[number] is not None else next((o for o in others if o is not None), None)
        labels.append(plain(value))
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({number + 1})" for number, label in enumerate(labels)]
    place = {number: position for position, number in enumerate(order)}
    return Axis(title, tuple(labels), tuple(place[number] for number in classes))


def _product(outer: Axis, inner: Axis) -> Axis:
    width = len(inner.labels)
    return Axis(
        f"{outer.title} · {inner.title}",
        tuple(f"{a} · {b}" for a in outer.labels for b in inner.labels),
        tuple(a * width + b for a, b in zip(outer.place, inner.place, strict=True)),
    )
